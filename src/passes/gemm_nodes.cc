// SPDX-License-Identifier: Apache-2.0
// Recognizes GEMMs with weights.
#include "passes/gemm_nodes.h"

#include "graph/einsum.h"
#include "ops/registry.h"

namespace ridge::passes {

bool is_projection(const Graph& graph, const Node& node) {
  if (!is_a(node, ops::matmul_op()) || node.inputs.size() != 2) return false;
  const Value& weight = graph.value(node.inputs[1]);
  return weight.storage == Storage::kParameter && weight.producer == kNoNode &&
         parse_einsum(node.attrs.text("einsum")).is_projection();
}

bool is_quantized_gemm(const Graph& graph, const Node& node) {
  return is_projection(graph, node) && graph.type(node.inputs[1]).dtype != DType::kF32 &&
         graph.type(node.inputs[0]).dtype == DType::kF32 &&
         graph.type(node.outputs[0]).dtype == DType::kF32;
}

Graph allow_native_gemms(const Graph& graph,
                         const std::function<bool(const Call& matmul)>& has_kernel) {
  Graph result = graph;
  for (Node& node : result.nodes)
    if (is_a(node, ops::matmul_op()) && has_kernel(CallTypes(graph, node).call()))
      node.attrs.set("native", true);
  return result;
}

}  // namespace ridge::passes
