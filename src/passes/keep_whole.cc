// SPDX-License-Identifier: Apache-2.0
// Sets the attribute `fused`.
#include "passes/keep_whole.h"

namespace ridge::passes {

Graph keep_whole(const Graph& graph, const Op& op) {
  Graph result = graph;
  for (Node& node : result.nodes)
    if (is_a(node, op)) node.attrs.set("fused", true);
  return result;
}

RewriteRule keep_whole_rule(const Op& op) {
  return {node_of(op), {}, [](Rewriter& rewriter, const Match& match) {
            Node node = match.root();
            node.attrs.set("fused", true);
            rewriter.replace_all(node.outputs, rewriter.copy(node));
          }};
}

}  // namespace ridge::passes
