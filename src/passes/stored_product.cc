// SPDX-License-Identifier: Apache-2.0
// Recognising GEMMs with stored weights, and asking the target about them.
#include "passes/stored_product.h"

#include "passes/projection.h"
#include "passes/target_call.h"

namespace ridge::passes {

bool is_stored_product(const Graph& graph, const Node& node) {
  return is_projection(graph, node) && graph.type(node.inputs[1]).dtype != DType::kF32 &&
         graph.type(node.inputs[0]).dtype == DType::kF32 &&
         graph.type(node.outputs[0]).dtype == DType::kF32;
}

bool runs_group(const PassContext& context,
                const Graph& graph,
                std::span<const ValueId> inputs,
                const std::string& activations) {
  return runs_on_target(context, graph, "matmul_group", inputs, {{"activations", activations}});
}

}  // namespace ridge::passes
