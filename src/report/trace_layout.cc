// SPDX-License-Identifier: Apache-2.0
// Rounds times so that order and nesting stay.
#include "report/trace_layout.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ridge::report {
namespace {

// A track whose slices follow each other. A slice that rounding would leave empty gets 1 ns, at the
// expense of its successors.
class Lane {
 public:
  bool is_free(double begin_ns) const { return begin_ns >= end_ns_; }
  int64_t next_ns() const { return next_ns_; }
  Slice place(double begin_ns, double end_ns) {
    const int64_t begin = std::max(next_ns_, static_cast<int64_t>(std::llround(begin_ns)));
    const int64_t end = std::max(begin + 1, static_cast<int64_t>(std::llround(end_ns)));
    end_ns_ = std::max(end_ns_, end_ns);
    next_ns_ = end;
    return {begin, end};
  }

 private:
  double end_ns_ = 0;    // the last slice's, as measured
  int64_t next_ns_ = 0;  // the last slice's, as placed
};

// Correlations are larger than the number of events in a trace: HolisticTraceAnalysis 0.5.0 keeps
// indices of events in the smallest type that holds the correlations, and pandas 3 refuses those
// that it does not hold.
constexpr int64_t kCorrelation = int64_t{1} << 24;

class Layout {
 public:
  Layout(const record::StepRecord& step, int64_t launches_before)
      : step_(step), last_correlation_(kCorrelation + launches_before) {}

  TraceLayout make() {
    for (const record::TimelineRun& each : step_.timeline) {
      add_gap(&each == &step_.timeline.front() ? "data" : "read-back and data", each.begin_ns);
      if (each.run.enqueues.empty())
        add_host_run(each);
      else
        add_device_run(each);
    }
    add_gap("read-back", step_.timeline_wall_ns);
    layout_.step.end_ns = host_.next_ns();
    return std::move(layout_);
  }

 private:
  const record::NodeRecord& node_of(const record::TimelineRun& each, int32_t node) const {
    const record::GraphName& graph = step_.graphs[static_cast<size_t>(each.graph)];
    return step_.nodes[static_cast<size_t>(graph.record_of[static_cast<size_t>(node)])];
  }

  // The host's time between graphs.
  void add_gap(const char* name, double end_ns) {
    const auto begin = static_cast<double>(host_.next_ns());
    if (std::llround(end_ns) <= host_.next_ns()) return;
    layout_.host.push_back(
        {HostSlice::Kind::kAnnotation, name, host_.place(begin, end_ns), nullptr, ++last_id_});
  }

  // An operation and, inside it, the call that launches its kernels.
  const HostSlice& add_launch(const std::string& name,
                              const char* call,
                              const record::NodeRecord* node,
                              double begin_ns,
                              double end_ns) {
    const Slice at = host_.place(begin_ns, end_ns);
    layout_.host.push_back({HostSlice::Kind::kOperation, name, at, node, ++last_id_});
    layout_.host.push_back({HostSlice::Kind::kCall, call, at, node, last_id_, ++last_correlation_});
    return layout_.host.back();
  }

  // On a CPU the call that launches a kernel returns when the kernel is done. Imported kernels that
  // run at once were launched one after the other.
  void add_host_run(const record::TimelineRun& each) {
    const std::vector<record::Span> spans = in_order(each.run.spans);
    for (size_t i = 0; i < spans.size(); ++i) {
      const record::NodeRecord& node = node_of(each, spans[i].node);
      const double end_ns =
          i + 1 < spans.size() ? std::min(spans[i].end_ns, spans[i + 1].begin_ns) : spans[i].end_ns;
      const HostSlice& call = add_launch(node.op, "launch", &node,
                                         each.begin_ns + spans[i].begin_ns, each.begin_ns + end_ns);
      add_kernel(each, spans[i], call.id, call.correlation, call.at.begin_ns);
    }
  }

  void add_device_run(const record::TimelineRun& each) {
    const std::string& graph = step_.graphs[static_cast<size_t>(each.graph)].name;
    std::map<int32_t, std::pair<int64_t, int64_t>> launch_of;  // id and correlation, by node
    for (const record::Enqueue& enqueue : each.run.enqueues) {
      const bool replays = enqueue.node < 0;
      const record::NodeRecord* node = replays ? nullptr : &node_of(each, enqueue.node);
      const HostSlice& call =
          add_launch(replays ? graph : node->op, replays ? "cudaGraphLaunch" : "cudaLaunchKernel",
                     node, each.begin_ns + enqueue.begin_ns, each.begin_ns + enqueue.end_ns);
      launch_of[enqueue.node] = {call.id, call.correlation};
    }
    add_wait(each.begin_ns + each.run.wall_ns);
    for (const record::Span& span : in_order(each.run.spans)) {
      auto found = launch_of.find(span.node);
      if (found == launch_of.end()) found = launch_of.find(-1);
      const auto [id, correlation] =
          found == launch_of.end() ? std::pair<int64_t, int64_t>{} : found->second;
      add_kernel(each, span, id, correlation, 0);
    }
  }

  void add_wait(double end_ns) {
    const auto begin = static_cast<double>(host_.next_ns());
    if (std::llround(end_ns) <= host_.next_ns()) return;
    layout_.host.push_back({HostSlice::Kind::kCall, "cudaStreamSynchronize",
                            host_.place(begin, end_ns), nullptr, ++last_id_, ++last_correlation_});
  }

  // The kernel's slice begins at `earliest_ns` or later.
  void add_kernel(const record::TimelineRun& each,
                  const record::Span& span,
                  int64_t id,
                  int64_t correlation,
                  int64_t earliest_ns) {
    const double begin = std::max(each.begin_ns + span.begin_ns, static_cast<double>(earliest_ns));
    const double end = std::max(begin, each.begin_ns + span.end_ns);
    size_t lane = 0;
    while (lane < lanes_.size() && !lanes_[lane].is_free(begin)) ++lane;
    if (lane == lanes_.size()) lanes_.emplace_back();
    const record::DeviceKernel* kernel =
        span.kernel < 0 ? nullptr : &each.run.kernels[static_cast<size_t>(span.kernel)];
    layout_.kernels.push_back({&node_of(each, span.node), kernel, lanes_[lane].place(begin, end),
                               kFirstStream + static_cast<int>(lane), id, correlation});
  }

  static std::vector<record::Span> in_order(std::vector<record::Span> spans) {
    std::stable_sort(spans.begin(), spans.end(), [](const record::Span& a, const record::Span& b) {
      return a.begin_ns < b.begin_ns;
    });
    return spans;
  }

  const record::StepRecord& step_;
  Lane host_;
  std::vector<Lane> lanes_;  // one for each stream
  int64_t last_id_ = 0, last_correlation_;
  TraceLayout layout_;
};

}  // namespace

TraceLayout lay_out(const record::RunRecord& run, int64_t launches_before, int64_t begin_ns) {
  TraceLayout layout = Layout(run.step, launches_before).make();
  const auto move = [&](Slice& slice) { slice.begin_ns += begin_ns, slice.end_ns += begin_ns; };
  if (layout.step.end_ns > 0) move(layout.step);
  for (HostSlice& each : layout.host) move(each.at);
  for (KernelSlice& each : layout.kernels) move(each.at);
  return layout;
}

}  // namespace ridge::report
