// SPDX-License-Identifier: Apache-2.0
// flash_attention: computes attention in tiles, without the S x S matrix in memory.
#include <array>

#include "graph/rewrite_rule.h"
#include "ops/registry.h"
#include "passes/nodes.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

void replace_attention(Rewriter& rewriter, const Match& match) {
  const Node& node = match.root();
  auto derive = rewriter.builder().derive(node);
  rewriter.replace(
      node.outputs[0],
      rewriter.builder().call_all("flash_attention", rewriter.map(node.inputs), node.attrs)[0]);
}

}  // namespace

Graph run_flash_attention(const Graph& graph, PassContext& context) {
  const std::array rules = {RewriteRule{node_of(ops::attention_op()), {}, replace_attention},
                            keep_whole_rule(ops::cached_attention_op())};
  return rewrite(graph, context.ops, rules);
}

}  // namespace ridge::passes
