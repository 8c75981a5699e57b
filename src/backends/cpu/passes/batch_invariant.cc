// SPDX-License-Identifier: Apache-2.0
// batch_invariant: a token's bits depend on its sequence alone, not on what else is in the run,
// how a prompt is cut, or whether a position was computed as part of a prompt or decoded. GEMMs
// and attention have forms for few and for many tokens, which sum in other orders; here each has
// one form. All other kernels compute rows one by one.
#include <algorithm>

#include "backends/cpu/isa.h"
#include "backends/cpu/passes/passes.h"
#include "base/error.h"
#include "graph/einsum.h"
#include "ops/cached_attention.h"
#include "ops/registry.h"

namespace ridge::backends::cpu {
namespace {

// Whether the node multiplies by weights. The library does it in bf16, in an order that it does
// not tell.
bool is_product(const Graph& graph, const Node& node) {
  if (!is_a(node, ops::matmul_op()) || node.inputs.size() != 2 ||
      !parse_einsum(node.attrs.text("einsum")).is_projection())
    return false;
  if (const Type& x = graph.type(node.inputs[0]); x.dtype != DType::kF32)
    throw usage_error("[batch_invariant] expected activations in fp32, got {}", x.str());
  return true;
}

}  // namespace

Graph run_batch_invariant(const Graph& graph, passes::PassContext&) {
  const auto trains = [](const Node& node) { return node.phase == Phase::kBackward; };
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), trains)) return graph;
  Graph result = graph;
  for (Node& node : result.nodes) {
    const bool is_group = is_a(node, ops::quantized_matmul_op());
    if (!is_group && !is_product(graph, node) && !is_a(node, ops::cached_attention_op())) continue;
    node.attrs.set("batch_invariant", true);
    if (!is_group) continue;
    if (const std::string& to = node.attrs.text("activations"); to != "f32")
      node.attrs.set(
          "activations",
          std::string(name(rounded_activations(quantized_isa(), kAnyTokens, to == "i8" ? 8 : 16))));
  }
  return result;
}

}  // namespace ridge::backends::cpu
