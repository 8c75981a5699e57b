// SPDX-License-Identifier: Apache-2.0
// Measures kernel times with CUPTI. On a stream, kernels are identified by their order: each launch
// is captured once to count its kernels, so that CUPTI needs to record nothing but kernels and
// copies. In a graph they are identified by graph nodes (cupti_records.h). The traced graph is
// separate from the one that plain runs replay.
#include <algorithm>
#include <atomic>
#include <span>

#include "backends/cuda/cupti_records.h"
#include "backends/cuda/device_error.h"
#include "backends/cuda/kernel_clock.h"
#include "backends/cuda/kernels/probes/hold.h"
#include "backends/cuda/recording.h"

namespace ridge::backends::cuda {
namespace {

class CuptiClock final : public Instrument {
 public:
  explicit CuptiClock(Device& device) : device_(device) {
    void* word = nullptr;
    check(cudaHostAlloc(&word, sizeof(int32_t), cudaHostAllocMapped), "allocating pinned memory");
    gate_ = static_cast<int32_t*>(word);
  }
  ~CuptiClock() override { cudaFreeHost(gate_); }

  // Returns an empty string on success, otherwise the reason for the failure.
  std::string attach() { return records_.attach(); }

  Observed observe(std::span<const NodeLaunch> launches, bool replays) override {
    records_.expect_attached();
    Observed observed;
    if (replays)
      observed.recording = record_graph(device_, launches, this);
    else
      for (const NodeLaunch& each : launches)
        observed.kernels.insert(observed.kernels.end(), count_kernels(device_, each.launch),
                                each.node);
    return observed;
  }

  // Tracing makes the launch of a graph about 0.1 ms longer on the host, and the first launch much
  // longer; between the graph's kernels it adds almost nothing. So the graph is launched while a
  // kernel holds the stream. On a stream, which the host must feed, tracing adds about 1 us to each
  // launch.
  bool start(const Observed& launches) override {
    const bool replays = launches.recording != nullptr;
    streamed_ = replays ? nullptr : &launches.kernels;
    records_.begin();
    // Before a run on a stream, this kernel runs without waiting: it absorbs the time that the
    // first launch after attaching takes, up to 2 ms, which does not belong to the run.
    std::atomic_ref(*gate_).store(replays ? 0 : 1);
    check(launch_hold(gate_, device_.stream()), "holding the stream");
    if (!replays) device_.synchronize();
    origin_ns_ = CuptiRecords::now_ns();
    return replays;
  }

  void release() override {
    origin_ns_ = CuptiRecords::now_ns();
    std::atomic_ref(*gate_).store(1);
  }

  void mark(NodeId node) override { records_.mark(node); }

  void stop(record::ProfiledRun& run) override {
    mark(kNoNode);
    CuptiRecords::Recorded recorded = records_.end();
    // Kernels that ran before the start do not belong to the run.
    std::erase_if(recorded.records,
                  [&](const CuptiRecords::Record& each) { return each.begin_ns < origin_ns_; });
    run.spans = spans(recorded);
    run.kernels = std::move(recorded.kernels);
    run.dropped += recorded.dropped;
  }

  // While CUPTI is attached, launches take longer: 12% on a stream, 3 to 7% of a 1 ms step in a
  // graph. From the ninth traced replay of a graph on, replays of other graphs stay 4% slower for
  // good, for an unknown reason; so a graph is traced at most kMostRuns times.
  void rest() override { records_.detach(); }

 private:
  // If records of a run on a stream are missing, or foreign ones are among them, all are reported
  // as lost: there is no way to assign them to nodes.
  std::vector<record::Span> spans(CuptiRecords::Recorded& recorded) const {
    std::vector<record::Span> spans;
    if (streamed_ != nullptr && recorded.records.size() != streamed_->size()) {
      recorded.dropped = std::max(recorded.dropped, static_cast<int64_t>(streamed_->size()));
      return spans;
    }
    for (size_t i = 0; i < recorded.records.size(); ++i) {
      const CuptiRecords::Record& each = recorded.records[i];
      const NodeId node = streamed_ != nullptr ? (*streamed_)[i] : records_.node_of(each);
      if (streamed_ == nullptr && node == kNoNode) continue;
      spans.push_back({node, static_cast<double>(each.begin_ns - origin_ns_),
                       static_cast<double>(each.end_ns - origin_ns_), each.kernel});
    }
    return spans;
  }

  Device& device_;
  int32_t* gate_ = nullptr;  // pinned: 0 holds the stream
  // The node of each kernel of a run on a stream; null in a replay.
  const std::vector<NodeId>* streamed_ = nullptr;
  uint64_t origin_ns_ = 0;
  CuptiRecords records_;
};

}  // namespace

std::unique_ptr<Instrument> make_cupti_clock(Device& device, std::string& failure) {
  auto clock = std::make_unique<CuptiClock>(device);
  failure = clock->attach();
  if (!failure.empty()) return nullptr;
  clock->rest();
  return clock;
}

}  // namespace ridge::backends::cuda
