// SPDX-License-Identifier: Apache-2.0
// Behind a cache stands what was appended to it.
#include "passes/attention_operands.h"

namespace ridge::passes {

std::optional<AttentionOperands> attention_operands(const Graph& graph, const Node& node) {
  if (node.op->name == "attention" || node.op->name == "flash_attention")
    return AttentionOperands{node.inputs[0], node.inputs[1], node.inputs[2], false};
  if (node.op->name != "cached_attention") return std::nullopt;
  const Node* append = graph.producer(node.inputs[1]);
  if (append == nullptr || append->op->name != "kv_append") return std::nullopt;
  return AttentionOperands{node.inputs[0], append->inputs[2], append->inputs[3], true};
}

}  // namespace ridge::passes
