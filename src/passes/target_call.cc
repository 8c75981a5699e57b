// SPDX-License-Identifier: Apache-2.0
// A graph of one node, which the target is shown.
#include "passes/target_call.h"

#include "graph/builder.h"

namespace ridge::passes {

bool runs_on_target(const PassContext& context,
                    const Graph& graph,
                    std::string_view op,
                    std::span<const ValueId> inputs,
                    const Attrs& attrs) {
  Graph alone;
  Builder b(alone, context.ops);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < inputs.size(); ++i)
    operands.push_back(b.state(std::to_string(i), graph.type(inputs[i])));
  b.call_all(op, operands, attrs);
  return context.target.unsupported(alone, alone.nodes.back()).empty();
}

}  // namespace ridge::passes
