// SPDX-License-Identifier: Apache-2.0
// Queries the target with a graph that holds only the new node.
#include "passes/new_node.h"

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

std::vector<ValueId> append(Rewriter& rewriter, const NewNode& made) {
  return rewriter.builder().call_all(made.op, rewriter.map(made.inputs), made.attrs);
}

}  // namespace ridge::passes
