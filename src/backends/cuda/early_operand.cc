// SPDX-License-Identifier: Apache-2.0
// Looks for nodes that write an operand.
#include "backends/cuda/early_operand.h"

#include <algorithm>

namespace ridge::backends::cuda {
namespace {

ValueId behind_views(const Graph& graph, ValueId value) {
  for (const Node* node = graph.producer(value); node != nullptr; node = graph.producer(value)) {
    if (node->op->kind != OpKind::kView) break;
    value = node->inputs[0];
  }
  return value;
}

// Whether a node other than `except` writes the value's memory.
bool is_updated(const Graph& graph, ValueId value, const Node& except) {
  for (const Node& node : graph.nodes) {
    if (node.op->aliases == nullptr || &node == &except) continue;
    for (const Alias& alias : aliases(graph, node))
      if (behind_views(graph, node.inputs[static_cast<size_t>(alias.input)]) == value) return true;
  }
  return false;
}

}  // namespace

bool is_ready_early(const BindCall& call, size_t input) {
  const Graph& graph = call.graph;
  ValueId value = behind_views(graph, call.node.inputs[input]);
  return graph.value(value).producer == kNoNode && !is_updated(graph, value, call.node);
}

bool is_ready_but_for_own_rows(const BindCall& call, size_t cache, size_t cells) {
  constexpr size_t kCellsOfAppend = 5, kCells = 3;
  const Graph& graph = call.graph;
  const Node* append = graph.producer(behind_views(graph, call.node.inputs[cache]));
  if (append == nullptr || append->op->name != "rope_append") return false;
  for (size_t i = 0; i < kCells; ++i)
    if (append->inputs[kCellsOfAppend + i] != call.node.inputs[cells + i] ||
        !is_ready_early(call, cells + i))
      return false;
  return std::ranges::all_of(aliases(graph, *append), [&](const Alias& alias) {
    const ValueId before = behind_views(graph, append->inputs[static_cast<size_t>(alias.input)]);
    return graph.producer(before) == nullptr && !is_updated(graph, before, *append);
  });
}

}  // namespace ridge::backends::cuda
