// SPDX-License-Identifier: Apache-2.0
// The predicted cost of one node, or of all nodes of an op, with formulas and numbers.
#pragma once

#include <string>
#include <vector>

#include "cost/ceilings.h"
#include "cost/cost.h"
#include "cost/predict.h"
#include "graph/graph.h"
#include "plan/target.h"
#include "report/terminal.h"

namespace ridge::report {

// The counts of a planned graph and the predicted times of its nodes.
struct PredictedGraph {
  const Graph* graph = nullptr;
  cost::CostedGraph costed;
  std::vector<cost::NodePrediction> nodes;
};
// The graph must outlive the result.
PredictedGraph predict_graph(const Graph& graph,
                             const plan::Target& target,
                             const cost::Ceilings& ceilings);

// Describes the node that produces `value`, or the nodes that read a value from outside the graph.
// The graph must have the value.
std::string value_text(const PredictedGraph& predicted, ValueId value, const plan::Target& target);
// Describes the op's formula and its nodes; nodes with equal types share a row.
std::string op_text(const PredictedGraph& predicted, const Op& op, const TerminalOptions& options);

}  // namespace ridge::report
