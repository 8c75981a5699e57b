// SPDX-License-Identifier: Apache-2.0
// Looks for nodes that write an operand.
#include "backends/cuda/early_operand.h"

namespace ridge::backends::cuda {
namespace {

ValueId behind_views(const Graph& graph, ValueId value) {
  for (const Node* node = graph.producer(value); node != nullptr; node = graph.producer(value)) {
    if (node->op->kind != OpKind::kView) break;
    value = node->inputs[0];
  }
  return value;
}

}  // namespace

bool is_ready_early(const BindCall& call, size_t input) {
  const Graph& graph = call.graph;
  ValueId value = behind_views(graph, call.node.inputs[input]);
  if (graph.value(value).producer != kNoNode) return false;
  for (const Node& node : graph.nodes) {
    if (node.op->aliases == nullptr || &node == &call.node) continue;
    for (const Alias& alias : aliases(graph, node))
      if (behind_views(graph, node.inputs[static_cast<size_t>(alias.input)]) == value) return false;
  }
  return true;
}

}  // namespace ridge::backends::cuda
