// SPDX-License-Identifier: Apache-2.0
// merge_gate_up: the gate and up projections of a gated feed-forward layer become one product.
#include "passes/merge_products.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Graph run(const Graph& graph, PassContext& context) {
  std::vector<std::vector<const Node*>> groups;
  for (const Node& node : graph.nodes)
    if (node.op->name == "glu")
      groups.push_back(
          {projection_behind(graph, node.inputs[0]), projection_behind(graph, node.inputs[1])});
  return merge_products(graph, context, groups, "gate_up_proj");
}

}  // namespace

const Pass& merge_gate_up_pass() {
  static const Pass pass{"merge_gate_up",
                         Stage::kForward,
                         Serves::kBoth,
                         "one product for the gate and up projections",
                         "",
                         run};
  return pass;
}

}  // namespace ridge::passes
