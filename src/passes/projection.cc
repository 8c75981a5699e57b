// SPDX-License-Identifier: Apache-2.0
// Recognizes projections.
#include "passes/projection.h"

#include "graph/einsum.h"
#include "ops/registry.h"

namespace ridge::passes {

bool is_projection(const Graph& graph, const Node& node) {
  if (!is_a(node, ops::matmul_op()) || node.inputs.size() != 2) return false;
  const Value& weight = graph.value(node.inputs[1]);
  return weight.storage == Storage::kParameter && weight.producer == kNoNode &&
         parse_einsum(node.attrs.text("einsum")).is_projection();
}

}  // namespace ridge::passes
