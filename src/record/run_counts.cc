// SPDX-License-Identifier: Apache-2.0
// Sums over the graphs of a run.
#include "record/run_counts.h"

#include <set>

#include "base/shape.h"
#include "cost/predict.h"
#include "record/operation_table.h"

namespace ridge::record {

std::vector<PredictedGraph> count_graphs(std::span<const cost::ProgramGraph> graphs,
                                         const cost::Ceilings* ceilings,
                                         RunRecord& record) {
  std::vector<PredictedGraph> predicted;
  for (const cost::ProgramGraph& each : graphs) {
    cost::NodeCost cost = cost::total(each.costed->costs);
    cost::ModelTotals model = cost::model_totals(each.graph());
    record.model.forward += times(each.repeat, model.forward);
    record.model.backward += times(each.repeat, model.backward);
    record.model.optimizer += times(each.repeat, model.optimizer);
    record.executed += times(each.repeat, cost.work);
    record.planned_bytes =
        checked_sum(record.planned_bytes,
                    checked_product(each.repeat, cost.bytes(), "planned bytes"), "planned bytes");
    record.compulsory_bytes += each.repeat * cost::compulsory_bytes(*each.costed, "");
    record.launches += each.repeat * cost.launches;
    predicted.push_back({each, {}});
    if (ceilings != nullptr)
      predicted.back().predictions = cost::predict_nodes(*each.costed, *ceilings);
  }
  if (ceilings != nullptr) record.predicted_ns = predict_step_ns(predicted, *ceilings);
  record.memory = planned_memory(graphs);
  return predicted;
}

double predict_step_ns(std::span<const PredictedGraph> graphs, const cost::Ceilings& ceilings) {
  double ns = ceilings.empty_step_ns;
  for (const PredictedGraph& each : graphs)
    ns += static_cast<double>(each.run.repeat) *
          cost::predict_run_ns(*each.run.costed, each.predictions, ceilings);
  return ns;
}

ModuleRecord module_record(std::string_view name,
                           std::span<const PredictedGraph> graphs,
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
  for (const PredictedGraph& each : graphs) {
    std::set<std::string> scopes;
    for (const Node& node : each.run.graph().nodes)
      if (folded_scope(node.scope) == scope) scopes.insert(node.scope);
    for (const std::string& layer : scopes)
      module.compulsory_bytes += each.run.repeat * cost::compulsory_bytes(*each.run.costed, layer);
  }
  return module;
}

}  // namespace ridge::record
