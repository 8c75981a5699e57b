// SPDX-License-Identifier: Apache-2.0
// Joins the kernels of a device to the operations that launched them.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/name_pattern.h"
#include "record/import/kernel_names.h"
#include "record/import/late_begins.h"
#include "record/import/operation_finder.h"

namespace ridge::record {
namespace {

// A graph whose last nodes were not recorded, if the kinds of the kernels are those of its nodes.
const CapturedGraph* longer_graph(const Events& events,
                                  KernelOps& ops,
                                  const std::vector<const ForeignEvent*>& kernels) {
  constexpr size_t kShare = 100;  // at most a hundredth is missing
  int tries = 64;
  for (const CapturedGraph& graph : events.trace_.captured) {
    const size_t size = graph.nodes.size();
    if (size <= kernels.size() || (size - kernels.size()) * kShare > size) continue;
    if (tries-- == 0) break;
    size_t alike = 0;
    for (size_t i = 0; i < kernels.size(); ++i) {
      const uint32_t name = graph.nodes[i].name, kernel = kernels[i]->name;
      const std::string_view op = ops.of(kernel);
      if (name == kernel || (!op.empty() && op == events.names_[name].row->op)) ++alike;
    }
    if (5 * alike >= 4 * kernels.size()) return &graph;
  }
  return nullptr;
}

// Joins kernels to the operations that launched them.
class KernelTimes : protected OperationFinder {
 public:
  using OperationFinder::OperationFinder;

  void find() {
    add_kernels();
    find_optimizer_phase();
    bound_steps();
  }

 private:
  struct Launched {
    const ForeignEvent* kernel;
    int64_t launcher;  // -1: unknown
  };

  Attribution& total() { return result().attribution; }

  // Kernels by the runtime call that launched them, or by the operation that their event names.
  void add_kernels() {
    std::unordered_map<int64_t, uint32_t> by_correlation, by_external, calls_by_external;
    for (const uint32_t i : tree_.order) {
      if (event(i).kind == EventKind::kRuntime && event(i).correlation < 0 &&
          event(i).external >= 0)
        calls_by_external[event(i).external] = i;
      if (event(i).kind == EventKind::kRuntime && event(i).correlation >= 0) {
        by_correlation[event(i).correlation] = i;
        first_correlation_ = std::min(first_correlation_, event(i).correlation);
      }
      if (event(i).kind == EventKind::kOperation && event(i).external >= 0)
        by_external[event(i).external] = i;
    }
    auto find = [](const auto& map, int64_t key) {
      const auto found = map.find(key);
      return key < 0 || found == map.end() ? -1 : static_cast<int64_t>(found->second);
    };
    std::vector<Launched> all;
    for (const ForeignEvent& kernel : trace_.events) {
      if (kernel.kind != EventKind::kKernel) continue;
      int64_t launcher = kernel.correlation >= 0 ? find(by_correlation, kernel.correlation)
                                                 : find(calls_by_external, kernel.external);
      const int64_t named = find(by_external, kernel.external);
      if (named >= 0 && (launcher < 0 || place(static_cast<uint32_t>(launcher)).operation < 0))
        launcher = named;
      all.push_back({&kernel, launcher});
    }
    if (!result().is_stepped_on_device) find_late_begins(all);
    std::map<uint32_t, std::vector<const ForeignEvent*>> replays;  // by the call that launched them
    for (const auto& [kernel, launcher] : all) {
      if (launcher >= 0 &&
          matches_pattern("*GraphLaunch*", trace_.name(event(static_cast<uint32_t>(launcher)))))
        replays[static_cast<uint32_t>(launcher)].push_back(kernel);
      else
        add_kernel(*kernel, launcher);
    }
    for (auto& [launch, kernels] : replays) add_replay(launch, kernels);
  }

  void find_late_begins(const std::vector<Launched>& all) {
    std::vector<LaunchedKernel> kernels;
    for (const auto& [kernel, launcher] : all) {
      kernels.push_back({kernel->begin_ns, kernel->end_ns(), 0, -1});
      if (launcher < 0) continue;
      const ForeignEvent& launch = event(static_cast<uint32_t>(launcher));
      kernels.back().launched_ns = launch.end_ns();
      kernels.back().step = step_at(result().steps, launch.begin_ns);
    }
    late_begins_ = late_begins(std::move(kernels), result().steps.size());
  }

  // The step of a kernel; -1, and noted, if it was launched outside of all steps. Correlations only
  // grow, so that a lower one than any recorded call's was launched before the trace began.
  int32_t step_of(const ForeignEvent& kernel, int64_t launcher) {
    const bool is_early = launcher < 0 && kernel.correlation >= 0 &&
                          first_correlation_ < INT64_MAX && kernel.correlation < first_correlation_;
    const int64_t launched_ns = launcher < 0 || result().is_stepped_on_device
                                    ? kernel.begin_ns
                                    : event(static_cast<uint32_t>(launcher)).begin_ns;
    int32_t step = is_early ? -1 : step_at(result().steps, launched_ns);
    if (const auto late = late_begins_.find(step);
        late != late_begins_.end() && kernel.begin_ns < late->second)
      step = -1;
    if (step >= 0) {
      const int64_t ready_ns =
          launcher < 0 ? kernel.begin_ns : event(static_cast<uint32_t>(launcher)).end_ns();
      auto& first = first_.try_emplace(step, INT64_MAX, 0).first->second;
      first = std::min(first, {kernel.begin_ns, kernel.begin_ns - ready_ns});
      return step;
    }
    total().outside_ns += kernel.length_ns;
    ++total().outside_kernels;
    outside_.emplace_back(is_early ? INT64_MIN : launched_ns, kernel.end_ns());
    return -1;
  }

  void add_kernel(const ForeignEvent& kernel, int64_t launcher) {
    const int32_t step = step_of(kernel, launcher);
    if (step < 0) return;
    if (kernel.call >= 0) return add_own(kernel, step);
    const int32_t owner = launcher < 0 ? -1 : operation_of(static_cast<uint32_t>(launcher));
    const std::string_view op = ops_.of(kernel.name);
    if (owner >= 0) {
      ImportedOperation& operation = result().operations[static_cast<size_t>(owner)];
      const bool is_known = !op.empty() || names_[operation.name].row->role != Role::kUnknown;
      return add_span(static_cast<uint32_t>(owner), kernel, is_known);
    }
    const Place at = launcher < 0 ? Place{} : place(static_cast<uint32_t>(launcher));
    add_lone(kernel, op, at, step);
  }

  // A kernel of Ridge, whose trace has its operation.
  void add_own(const ForeignEvent& kernel, int32_t step) {
    const RecordedCounts& call = trace_.calls[static_cast<size_t>(kernel.call)];
    const auto [scope, is_new] =
        scopes_.emplace(call.scope, static_cast<uint32_t>(result().scopes.size()));
    if (is_new) result().scopes.push_back(trace_.names[call.scope]);
    result().has_backward = result().has_backward || call.phase == Phase::kBackward;
    result().operations.push_back({trace_.names[call.op], kernel.name, scope->second, call.phase,
                                   step, kernel.call, -1, kernel.begin_ns});
    add_span(static_cast<uint32_t>(result().operations.size() - 1), kernel, true);
  }

  // A kernel of which only the name is known.
  void add_lone(const ForeignEvent& kernel, std::string_view op, const Place& at, int32_t step) {
    const auto operation = static_cast<uint32_t>(result().operations.size());
    result().operations.push_back({op.empty() ? trace_.name(kernel) : op, kernel.name, at.scope,
                                   at.phase, step, -1, at.batch, kernel.begin_ns});
    add_span(operation, kernel, !op.empty());
  }

  // The kernels of a replayed graph are the operations of its capture, node by node.
  void add_replay(uint32_t launch, std::vector<const ForeignEvent*>& kernels) {
    std::ranges::stable_sort(kernels, [](const ForeignEvent* a, const ForeignEvent* b) {
      return a->sequence != b->sequence ? a->sequence < b->sequence : a->begin_ns < b->begin_ns;
    });
    const int32_t batch = place(launch).batch;
    const CapturedGraph* graph =
        captured_graph(trace_, kernels.size(),
                       batch < 0 ? -1 : result().batches[static_cast<size_t>(batch)].tokens());
    if (graph == nullptr) graph = longer_graph(*this, ops_, kernels);
    std::map<int32_t, uint32_t> operations;  // by group
    for (size_t i = 0; i < kernels.size(); ++i) {
      const int32_t step = step_of(*kernels[i], launch);
      if (step < 0) continue;
      total().graph_ns += kernels[i]->length_ns;
      const std::string_view op = ops_.of(kernels[i]->name);
      if (graph == nullptr || graph->nodes[i].name == 0) {
        if (!op.empty()) total().replayed_ns += kernels[i]->length_ns;
        add_lone(*kernels[i], op, place(launch), step);
        continue;
      }
      const CapturedNode& node = graph->nodes[i];
      const TorchOperation& row = *names_[node.name].row;
      const auto [found, is_new] =
          operations.emplace(node.group, static_cast<uint32_t>(result().operations.size()));
      if (is_new)
        result().operations.push_back({row.op.empty() ? trace_.names[node.name] : row.op, node.name,
                                       place(launch).scope, place(launch).phase, step, node.call,
                                       place(launch).batch, kernels[i]->begin_ns});
      add_span(found->second, *kernels[i], !op.empty() || row.role != Role::kUnknown);
    }
  }

  // A device may finish a step after the host has, and then starts the next one later; so it does
  // after what was launched before the trace, or if its first kernel has to wait.
  void bound_steps() {
    std::vector<ImportedStep>& steps = result().steps;
    for (const ImportedSpan& span : result().spans) {
      const auto step = static_cast<size_t>(result().operations[span.operation].step);
      steps[step].end_ns = std::max(steps[step].end_ns, span.end_ns);
    }
    for (const auto& [launched_ns, end_ns] : outside_) {
      const auto next = std::ranges::upper_bound(steps, launched_ns, {}, &ImportedStep::begin_ns);
      if (next == steps.end() || end_ns <= next->begin_ns) continue;
      const auto first = first_.find(static_cast<int32_t>(next - steps.begin()));
      if (first != first_.end() &&
          (launched_ns == INT64_MIN || first->second.first - first->second.second < end_ns))
        next->begin_ns = std::max(next->begin_ns, std::min(end_ns, first->second.first));
    }
    for (const auto& [step, first] : first_)
      if (first.second > kLongestLaunchNs) {
        int64_t& begin_ns = steps[static_cast<size_t>(step)].begin_ns;
        begin_ns = std::max(begin_ns, first.first);
      }
    for (const auto& [step, begin_ns] : late_begins_)
      steps[static_cast<size_t>(step)].begin_ns = begin_ns;
    for (size_t i = 1; i < steps.size(); ++i) {
      steps[i].begin_ns = std::max(steps[i].begin_ns, steps[i - 1].end_ns);
      steps[i].end_ns = std::max(steps[i].end_ns, steps[i].begin_ns);
    }
  }

  KernelOps ops_{trace_.names};
  std::map<int32_t, int64_t> late_begins_;            // by step
  std::vector<std::pair<int64_t, int64_t>> outside_;  // launch and end of kernels of no step
  // The begin of the first kernel in each step, and how long it waited after its launch.
  std::map<int32_t, std::pair<int64_t, int64_t>> first_;
  std::unordered_map<uint32_t, uint32_t> scopes_;  // by the number of their name
  int64_t first_correlation_ = INT64_MAX;
};

}  // namespace

void find_kernel_times(const Events& events, std::vector<Place> places, ImportedSteps& result) {
  KernelTimes(events, std::move(places), result).find();
}

}  // namespace ridge::record
