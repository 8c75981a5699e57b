// SPDX-License-Identifier: Apache-2.0
// merge_qkv: the q, k and v projections of an attention become one
// product. Of an attention over a cache only where weights are copied
// to the device anyway: elsewhere they stay where their file has them.
#include "passes/attention_operands.h"
#include "passes/merge_products.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Graph run(const Graph& graph, PassContext& context) {
  std::vector<std::vector<const Node*>> groups;
  for (const Node& node : graph.nodes) {
    auto in = attention_operands(graph, node);
    if (!in || node.op->name == "flash_attention") continue;
    if (in->is_cached && !context.target.owns_weights()) continue;
    groups.push_back({projection_behind(graph, in->q), projection_behind(graph, in->k),
                      projection_behind(graph, in->v)});
  }
  return merge_products(graph, context, groups, "qkv_proj");
}

}  // namespace

const Pass& merge_qkv_pass() {
  static const Pass pass{
      "merge_qkv", Stage::kForward, Serves::kBoth, "one product for the q, k and v projections", "",
      run};
  return pass;
}

}  // namespace ridge::passes
