// SPDX-License-Identifier: Apache-2.0
// Recognizes GEMMs with quantized weights.
#include "passes/quantized_gemm.h"

#include "passes/projection.h"

namespace ridge::passes {

bool is_quantized_gemm(const Graph& graph, const Node& node) {
  return is_projection(graph, node) && graph.type(node.inputs[1]).dtype != DType::kF32 &&
         graph.type(node.inputs[0]).dtype == DType::kF32 &&
         graph.type(node.outputs[0]).dtype == DType::kF32;
}

}  // namespace ridge::passes
