// SPDX-License-Identifier: Apache-2.0
// Sums over graphs.
#include "record/run_counts.h"

#include <set>

#include "base/clock.h"
#include "base/shape.h"
#include "cost/predict.h"
#include "record/operation_table.h"

namespace ridge::record {
std::vector<MeasuredGraph> count_graphs(std::span<const CountedGraph> graphs,
                                        const plan::Target& target,
                                        const cost::Ceilings* ceilings,
                                        RunRecord& record) {
  std::vector<MeasuredGraph> measured;
  std::vector<PlannedGraph> planned;
  for (const CountedGraph& each : graphs) {
    cost::NodeCost cost = total(*each.costs);
    cost::ModelTotals model = cost::model_totals(*each.graph);
    record.model.forward += times(each.repeat, model.forward);
    record.model.backward += times(each.repeat, model.backward);
    record.model.optimizer += times(each.repeat, model.optimizer);
    record.executed += times(each.repeat, cost.work);
    record.planned_bytes =
        checked_sum(record.planned_bytes,
                    checked_product(each.repeat, cost.bytes(), "planned bytes"), "planned bytes");
    record.compulsory_bytes += each.repeat * cost::compulsory_bytes(*each.graph, *each.places, "");
    record.launches += each.repeat * cost.launches;
    measured.push_back({each.name, each.repeat, each.graph, each.costs, {}});
    planned.push_back({each.name, each.graph, each.plan});
    if (ceilings == nullptr) continue;
    measured.back().predictions =
        cost::predict_nodes(*each.graph, *each.places, *each.plan, *each.costs, *ceilings);
  }
  if (ceilings != nullptr)
    record.predicted_ns = predict_step_ns(graphs, measured, target, *ceilings);
  record.memory = planned_memory(planned);
  return measured;
}

double predict_step_ns(std::span<const CountedGraph> graphs,
                       std::span<const MeasuredGraph> measured,
                       const plan::Target& target,
                       const cost::Ceilings& ceilings) {
  double ns = ceilings.turn_ns;
  for (size_t i = 0; i < graphs.size(); ++i) {
    const CountedGraph& each = graphs[i];
    ns += static_cast<double>(each.repeat) *
          cost::predict_run_ns(*each.graph, *each.places, *each.plan, *each.costs,
                               measured[i].predictions, target, ceilings);
  }
  return ns;
}

ModuleRecord module_record(std::string_view name,
                           std::span<const CountedGraph> graphs,
                           const StepRecord& step) {
  ModuleRecord module;
  module.name = name;
  const std::string scope = "layer.*/" + module.name;
  for (const NodeRecord& node : step.nodes) {
    if (folded_scope(node.scope) != scope) continue;
    module.work += node.work;
    module.planned_bytes += node.read_bytes + node.written_bytes;
    module.launches += node.calls;
    module.time_ns += node.time_ns;
    module.predicted_ns += node.predicted_ns;
  }
  for (const CountedGraph& each : graphs) {
    std::set<std::string> scopes;
    for (const Node& node : each.graph->nodes)
      if (folded_scope(node.scope) == scope) scopes.insert(node.scope);
    for (const std::string& layer : scopes)
      module.compulsory_bytes +=
          each.repeat * cost::compulsory_bytes(*each.graph, *each.places, layer);
  }
  return module;
}

double clock_reading_ns() {
  constexpr int kReadings = 10'000;
  double begin = now_ns(), end = begin;
  for (int i = 0; i < kReadings; ++i) end = now_ns();
  return (end - begin) / kReadings;
}

}  // namespace ridge::record
