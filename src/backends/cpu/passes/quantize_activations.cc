// SPDX-License-Identifier: Apache-2.0
// quantize_activations: GEMMs with quantized weights round their input to 16 bits and multiply
// integers; =8 rounds it to 8 bits, which multiplies twice as many at once. AVX2 adds such
// products in 16 bits, where those with quants of more than six bits do not fit: their GEMMs keep
// 16 bits. With AMX, the input is rounded to 8 bits, for more than 32 tokens to bf16. The weights
// do not change. No other backend multiplies quantized blocks. In a graph with such GEMMs, the
// attention of a prompt also rounds to 16 bits.
#include <algorithm>
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/passes/passes.h"
#include "base/error.h"
#include "graph/rewriter.h"
#include "ops/cached_attention.h"
#include "ops/registry.h"
#include "passes/gemm_nodes.h"
#include "passes/nodes.h"

namespace ridge::backends::cpu {
namespace {

// The types of the operands after the first.
std::vector<DType> weights_of(const Graph& graph, const Node& node) {
  std::vector<DType> weights;
  for (size_t i = 1; i < node.inputs.size(); ++i)
    weights.push_back(graph.type(node.inputs[i]).dtype);
  return weights;
}

bool has_blocks(const Graph& graph, const Node& node) {
  const std::vector<DType> weights = weights_of(graph, node);
  return std::any_of(weights.begin(), weights.end(), is_block);
}

bool any_has_blocks(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const Node& node) { return has_blocks(graph, node); });
}

bool is_group(const Node& node) { return is_a(node, ops::quantized_matmul_op()); }

}  // namespace

Graph run_quantize_activations(const Graph& graph, passes::PassContext& context) {
  const int64_t bits = context.number.value_or(16);
  const QuantizedIsa isa = quantized_isa();
  if (bits == 8 && !takes_repacked(isa))
    throw usage_error(
        "[quantize_activations] expected AVX2 or more, which multiplies 8 bits faster than 16, got {}",
        isa_name());
  Graph result = Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    const Node& node = graph.node(id);
    if (is_group(node) ? node.attrs.text("activations") != "f32"
                       : !passes::is_quantized_gemm(graph, node))
      return false;
    if (!has_blocks(graph, node)) return false;
    const DType rounded =
        rounded_activations(isa, graph.shape(node.inputs[0])[0], bits, weights_of(graph, node));
    const passes::NewNode group{
        "quantized_matmul", node.inputs, {{"activations", std::string(name(rounded))}}};
    if (rounded == DType::kF32 || !passes::runs_on_target(context, graph, group)) return false;
    auto derive = rewriter.builder().derive(node);
    rewriter.replace_all(node.outputs, append(rewriter, group));
    return true;
  });
  if (any_has_blocks(graph))
    for (Node& node : result.nodes)
      if (is_a(node, ops::cached_attention_op())) node.attrs.set("activations", std::string("i16"));
  return result;
}

}  // namespace ridge::backends::cpu
