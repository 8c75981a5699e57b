// SPDX-License-Identifier: Apache-2.0
// merge_qkv: the q, k and v projections of an attention become one product.
#include "passes/merge_products.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Graph run(const Graph& graph, PassContext& context) {
  std::vector<std::vector<const Node*>> groups;
  for (const Node& node : graph.nodes)
    if (node.op->name == "attention")
      groups.push_back({projection_behind(graph, node.inputs[0]),
                        projection_behind(graph, node.inputs[1]),
                        projection_behind(graph, node.inputs[2])});
  return merge_products(graph, context, groups, "qkv_proj");
}

}  // namespace

const Pass& merge_qkv_pass() {
  static const Pass pass{"merge_qkv", Stage::kForward, "one product for the q, k and v projections",
                         "", run};
  return pass;
}

}  // namespace ridge::passes
