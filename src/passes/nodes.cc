// SPDX-License-Identifier: Apache-2.0
// Asks the target with a graph that holds only the new node.
#include "passes/nodes.h"

#include <algorithm>

#include "graph/builder.h"

namespace ridge::passes {

bool runs_on_target(const PassContext& context, const Graph& graph, const NewNode& made) {
  Graph alone;
  Builder b(alone, context.ops);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < made.inputs.size(); ++i)
    operands.push_back(b.state(std::to_string(i), graph.type(made.inputs[i])));
  b.call_all(made.op, operands, made.attrs);
  return context.target.unsupported(alone, alone.nodes.back()).empty();
}

std::vector<bool> made_from(const Graph& graph,
                            std::vector<bool> marked,
                            const std::function<bool(const Node&)>& starts) {
  const auto is_marked = [&](ValueId input) { return marked[static_cast<size_t>(input)]; };
  for (const Node& node : graph.nodes)
    if (starts(node) || std::ranges::any_of(node.inputs, is_marked))
      for (const ValueId output : node.outputs) marked[static_cast<size_t>(output)] = true;
  return marked;
}

std::vector<ValueId> append(Rewriter& rewriter, const NewNode& made) {
  return rewriter.builder().call_all(made.op, rewriter.map(made.inputs), made.attrs);
}

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
