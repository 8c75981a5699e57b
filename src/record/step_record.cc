// SPDX-License-Identifier: Apache-2.0
// Sums spans into node records.
#include "record/step_record.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"

namespace ridge::record {
namespace {

// The operands of a graph's nodes. Nodes are asked about in schedule order.
class Operands {
 public:
  explicit Operands(const cost::CostedGraph& costed)
      : costed_(costed), is_read_(costed.graph.values.size()) {}

  // Types, producers and new parameters of a node's operands.
  void describe(const Node& node, NodeRecord& record) {
    for (ValueId input : node.inputs) {
      if (!record.inputs.empty()) record.inputs += ", ";
      record.inputs += costed_.graph.type(input).str();
      follow(input, record);
    }
    std::sort(record.producers.begin(), record.producers.end());
    record.producers.erase(std::unique(record.producers.begin(), record.producers.end()),
                           record.producers.end());
  }

 private:
  // From a view to what it shows, up to a kernel or a stored value.
  void follow(ValueId id, NodeRecord& record) {
    std::vector<ValueId> open = {id};
    while (!open.empty()) {
      const Value& value = costed_.graph.value(open.back());
      const auto at = static_cast<size_t>(open.back());
      open.pop_back();
      if (value.producer == kNoNode) {
        if (value.storage == Storage::kParameter && !is_read_[at])
          record.parameters += value.type.shape.elements();
        is_read_[at] = true;
      } else if (costed_.costs[static_cast<size_t>(value.producer)].launches > 0) {
        record.producers.push_back(value.producer);
      } else {
        const Node& view = costed_.graph.node(value.producer);
        open.insert(open.end(), view.inputs.begin(), view.inputs.end());
      }
    }
  }

  const cost::CostedGraph& costed_;
  std::vector<bool> is_read_;  // per value: whether it is a parameter that a node has read
};

std::vector<NodeRecord> node_records(std::span<const PredictedGraph> graphs,
                                     std::vector<GraphName>& names) {
  std::vector<NodeRecord> records;
  for (const PredictedGraph& graph : graphs) {
    const cost::ProgramGraph& each = graph.run;
    Operands operands(*each.costed);
    names.push_back({each.name, std::vector<int>(each.graph().nodes.size(), -1)});
    for (size_t i = 0; i < each.graph().nodes.size(); ++i) {
      const Node& node = each.graph().nodes[i];
      const cost::NodeCost& cost = each.costed->costs[i];
      if (cost.launches == 0) continue;
      names.back().record_of[i] = static_cast<int>(records.size());
      NodeRecord record;
      record.graph = each.name;
      record.node = static_cast<NodeId>(i);
      record.op = node.op->name;
      record.scope = node.scope;
      record.phase = std::string(ridge::name(node.phase));
      record.shape = node.outputs.empty() ? "" : each.graph().type(node.outputs[0]).str();
      operands.describe(node, record);
      record.calls = each.repeat * cost.launches;
      record.work = times(each.repeat, cost.work);
      record.read_bytes = each.repeat * cost.read_bytes;
      record.written_bytes = each.repeat * cost.written_bytes;
      record.sent_bytes = each.repeat * cost.sent_bytes;
      if (!graph.predictions.empty()) {
        const cost::NodePrediction& predicted = graph.predictions[i];
        const auto repeat = static_cast<double>(each.repeat);
        record.predicted_ns = repeat * predicted.ns;
        record.compute_ns = repeat * predicted.compute_ns;
        record.memory_ns = repeat * predicted.memory_ns;
        record.overhead_ns = repeat * predicted.overhead_ns;
        record.bound = predicted.bound;
      }
      records.push_back(std::move(record));
    }
  }
  return records;
}

std::vector<ScopeBytes> scope_bytes(std::span<const PredictedGraph> graphs) {
  std::vector<ScopeBytes> all;
  for (const PredictedGraph& graph : graphs) {
    std::set<std::string> scopes;
    for (const Node& node : graph.run.graph().nodes)
      if (!node.scope.empty()) scopes.insert(node.scope);
    for (const std::string& scope : scopes)
      all.push_back({graph.run.name, scope,
                     graph.run.repeat * cost::compulsory_bytes(*graph.run.costed, scope)});
  }
  return all;
}

// The graph of each run of a step.
std::vector<int> run_order(std::span<const PredictedGraph> graphs) {
  std::vector<int> order;
  for (size_t i = 0; i < graphs.size(); ++i)
    order.insert(order.end(), static_cast<size_t>(graphs[i].run.repeat), static_cast<int>(i));
  return order;
}

// Indices of the middle half of the steps by wall time. The median step is at the center.
std::vector<size_t> middle_steps(std::span<const InstrumentedStep> steps, MiddleSteps of) {
  std::vector<size_t> order(steps.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return steps[a].wall_ns < steps[b].wall_ns; });
  const size_t outside = of == MiddleSteps::kMedian ? (steps.size() - 1) / 2 : steps.size() / 4;
  return {order.begin() + static_cast<std::ptrdiff_t>(outside),
          order.end() - static_cast<std::ptrdiff_t>(outside)};
}

double sum_of_walls(const InstrumentedStep& step) {
  double sum = 0;
  for (const ProfiledRun& run : step.runs) sum += run.wall_ns;
  return sum;
}

// The exclusive time of each span: a moment is divided evenly among the kernels that run in it.
// Empty spans are skipped: the sort could put their end before their begin, and they would never
// stop running.
std::vector<double> exclusive_parts(const std::vector<Span>& spans) {
  struct Change {
    double at_ns;
    size_t span;
    bool begins;
  };
  std::vector<Change> changes;
  for (size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].end_ns <= spans[i].begin_ns) continue;
    changes.push_back({spans[i].begin_ns, i, true});
    changes.push_back({spans[i].end_ns, i, false});
  }
  std::sort(changes.begin(), changes.end(),
            [](const Change& a, const Change& b) { return a.at_ns < b.at_ns; });
  std::vector<double> parts(spans.size(), 0.0);
  std::vector<size_t> running;
  double last_ns = 0;
  for (const Change& change : changes) {
    for (size_t span : running)
      parts[span] += (change.at_ns - last_ns) / static_cast<double>(running.size());
    last_ns = change.at_ns;
    if (change.begins)
      running.push_back(change.span);
    else
      std::erase(running, change.span);
  }
  return parts;
}

// The time that the sum of the spans counts more than once.
double overlapped_ns(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
  double end = 0, overlapped = 0;
  for (const Span& span : spans) {
    overlapped += std::clamp(end - span.begin_ns, 0.0, span.end_ns - span.begin_ns);
    end = std::max(end, span.end_ns);
  }
  return overlapped;
}

Summary phase_summary(const StepRecord& record, std::string_view phase, size_t steps) {
  std::vector<double> sums(steps, 0.0);
  for (const NodeRecord& node : record.nodes)
    if (node.phase == phase)
      for (size_t i = 0; i < steps; ++i) sums[i] += node.samples_ns[i];
  return summarize(sums);
}

void add_samples(std::span<const InstrumentedStep> steps,
                 const std::vector<int>& order,
                 StepRecord& record) {
  for (NodeRecord& node : record.nodes) node.samples_ns.assign(steps.size(), 0.0);
  for (size_t s = 0; s < steps.size(); ++s) {
    RIDGE_CHECK(steps[s].runs.size() == order.size(), "a step of {} runs, expected {}",
                steps[s].runs.size(), order.size());
    record.wall_samples_ns.push_back(steps[s].wall_ns);
    record.step_numbers.push_back(steps[s].index);
    for (size_t r = 0; r < order.size(); ++r) {
      const std::vector<int>& record_of = record.graphs[static_cast<size_t>(order[r])].record_of;
      for (const Span& span : steps[s].runs[r].spans) {
        int index = record_of.at(static_cast<size_t>(span.node));
        RIDGE_CHECK(index >= 0, "node {} was timed and launches nothing", span.node);
        record.nodes[static_cast<size_t>(index)].samples_ns[s] += span.end_ns - span.begin_ns;
      }
    }
  }
}

// Sets the nodes' exclusive times to means over the middle steps.
void add_exclusive_parts(std::span<const InstrumentedStep> steps,
                         const std::vector<int>& order,
                         const std::vector<size_t>& middle,
                         StepRecord& record) {
  std::vector<double> sums(record.nodes.size(), 0.0);
  for (size_t s : middle)
    for (size_t r = 0; r < order.size(); ++r) {
      const std::vector<Span>& spans = steps[s].runs[r].spans;
      const std::vector<int>& record_of = record.graphs[static_cast<size_t>(order[r])].record_of;
      std::vector<double> parts = exclusive_parts(spans);
      for (size_t i = 0; i < spans.size(); ++i)
        sums[static_cast<size_t>(record_of[static_cast<size_t>(spans[i].node)])] += parts[i];
    }
  for (size_t i = 0; i < sums.size(); ++i)
    record.nodes[i].exclusive_ns =
        static_cast<int64_t>(std::floor(sums[i] / static_cast<double>(middle.size())));
}

// The runs of a step as a timeline, without the instrument's time before, between and after them.
std::vector<TimelineRun> timeline_of(const InstrumentedStep& step, const std::vector<int>& order) {
  std::vector<TimelineRun> timeline;
  double instrument_ns = 0, free_ns = 0;
  for (size_t r = 0; r < order.size(); ++r) {
    const ProfiledRun& run = step.runs[r];
    const double begin = std::max(free_ns, run.called_ns - step.begin_ns - instrument_ns);
    instrument_ns += run.instrument_ns;
    free_ns = begin + run.wall_ns;
    timeline.push_back({order[r], run, begin});
  }
  return timeline;
}

int64_t dropped_records(std::span<const InstrumentedStep> steps) {
  int64_t sum = 0;
  for (const InstrumentedStep& step : steps)
    for (const ProfiledRun& run : step.runs) sum += run.dropped;
  return sum;
}

std::string first_caveat(std::span<const InstrumentedStep> steps) {
  for (const InstrumentedStep& step : steps)
    for (const ProfiledRun& run : step.runs)
      if (!run.caveat.empty()) return run.caveat;
  return "";
}

}  // namespace

void add_step_times(std::span<const InstrumentedStep> steps,
                    const std::vector<int>& order,
                    StepRecord& record,
                    MiddleSteps of) {
  add_samples(steps, order, record);

  std::vector<size_t> middle = middle_steps(steps, of);
  double count = static_cast<double>(middle.size());
  // Times are truncated to whole nanoseconds, not rounded, so that the nodes never add up to more
  // than their graphs.
  for (NodeRecord& node : record.nodes) {
    double sum = 0;
    for (size_t s : middle) sum += node.samples_ns[s];
    node.time_ns = static_cast<int64_t>(std::floor(sum / count));
    record.kernel_ns += node.time_ns;
  }
  add_exclusive_parts(steps, order, middle, record);
  double wall = 0, inside = 0, overlapped = 0, launch = 0;
  for (size_t s : middle) {
    wall += steps[s].wall_ns;
    inside += sum_of_walls(steps[s]);
    for (const ProfiledRun& run : steps[s].runs) {
      overlapped += overlapped_ns(run.spans);
      if (!run.spans.empty()) launch += run.spans.front().begin_ns;
    }
  }
  record.idle_before_first_ns = static_cast<int64_t>(std::floor(launch / count));
  record.wall_ns = static_cast<int64_t>(std::floor(wall / count));
  record.overlapped_ns = static_cast<int64_t>(std::floor(overlapped / count));
  record.idle_ns = static_cast<int64_t>(std::floor(inside / count)) - record.busy_ns();
  record.host_ns = record.wall_ns - record.idle_ns - record.busy_ns();
  record.dropped = dropped_records(steps);
  record.caveat = first_caveat(steps);
  record.forward = phase_summary(record, "forward", steps.size());
  record.backward = phase_summary(record, "backward", steps.size());
  record.optimizer = phase_summary(record, "optimizer", steps.size());
  const InstrumentedStep& typical = steps[middle[middle.size() / 2]];
  record.timeline = timeline_of(typical, order);
  record.timeline_step = typical.index;
  record.timeline_wall_ns = typical.wall_ns;
}

StepRecord make_step_record(std::span<const PredictedGraph> graphs,
                            std::span<const InstrumentedStep> steps) {
  StepRecord record;
  record.nodes = node_records(graphs, record.graphs);
  if (steps.empty()) return record;
  record.scopes = scope_bytes(graphs);
  add_step_times(steps, run_order(graphs), record);
  return record;
}

}  // namespace ridge::record
