// SPDX-License-Identifier: Apache-2.0
// The predicted cost of one node, or of all nodes of an op, with formulas and numbers. Not a
// subcommand.
#pragma once

#include <string>
#include <vector>

#include "apps/command.h"
#include "cost/ceilings.h"
#include "cost/cost.h"
#include "cost/predict.h"
#include "graph/graph.h"
#include "plan/target.h"

namespace ridge::apps {

// Whether the graph has a value of this number.
bool has_value(const Graph& graph, ValueId value);

// The plan and the predicted costs of a graph's nodes. Graph and target must outlive this object.
class ExplainedGraph {
 public:
  ExplainedGraph(const Graph& graph, const plan::Target& target, const cost::Ceilings& ceilings);

  // Describes the node that produces `value`, or the nodes that read a value from outside the graph.
  // The graph must have the value.
  std::string value_text(ValueId value) const;
  // Describes the op's formula and its nodes; nodes with equal types share a row.
  std::string op_text(const Op& op, const TerminalOptions& options) const;

 private:
  std::string node_text(const Node& node) const;
  std::string readers_text(ValueId value) const;

  const Graph& graph_;
  const plan::Target& target_;
  cost::CostedGraph costed_;
  std::vector<cost::NodePrediction> predictions_;
};

}  // namespace ridge::apps
