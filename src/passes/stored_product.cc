// SPDX-License-Identifier: Apache-2.0
// Recognising products with stored weights, and asking the target about them.
#include "passes/stored_product.h"

#include "graph/einsum.h"
#include "passes/target_call.h"

namespace ridge::passes {

bool is_stored_product(const Graph& graph, const Node& node) {
  if (node.op->name != "matmul" || node.inputs.size() != 2) return false;
  const Value& weight = graph.value(node.inputs[1]);
  return weight.storage == Storage::kParameter && weight.producer == kNoNode &&
         weight.type.dtype != DType::kF32 && graph.type(node.inputs[0]).dtype == DType::kF32 &&
         graph.type(node.outputs[0]).dtype == DType::kF32 &&
         parse_einsum(node.attrs.text("einsum")).is_projection();
}

bool runs_group(const PassContext& context,
                const Graph& graph,
                std::span<const ValueId> inputs,
                const std::string& activations) {
  return runs_on_target(context, graph, "matmul_group", inputs, {{"activations", activations}});
}

}  // namespace ridge::passes
