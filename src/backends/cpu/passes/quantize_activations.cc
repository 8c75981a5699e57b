// SPDX-License-Identifier: Apache-2.0
// quantize_activations: GEMMs with weights in quantized blocks round their input to 16 bits, so
// that whole numbers are multiplied; beside AMX to 8 bits or bf16. Weights are left as they are. No
// other backend multiplies blocks.
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/quantized/matmul.h"
#include "backends/cpu/passes/passes.h"
#include "graph/rewriter.h"
#include "ops/registry.h"
#include "passes/new_node.h"
#include "passes/stored_product.h"

namespace ridge::backends::cpu {
namespace {

// Beside tiles, which round prompts to 8 bits of each number, a token's 8 bits of each block are in
// keeping; half as many multiplications are worth 10% of its time there.
std::string rounded_to(int64_t tokens) {
  if (has_bf16_tiles()) return tokens > kGemvTokens ? "bf16" : "i8";
  return "i16";
}

bool has_blocks(const Graph& graph, const Node& node) {
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (is_block(graph.type(node.inputs[i]).dtype)) return true;
  return false;
}

bool is_group(const Node& node) { return is_a(node, ops::matmul_group_op()); }

Graph run(const Graph& graph, passes::PassContext& context) {
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    const Node& node = graph.node(id);
    if (is_group(node) ? node.attrs.text("activations") != "f32"
                       : !passes::is_stored_product(graph, node))
      return false;
    const passes::NewNode group{
        "matmul_group", node.inputs, {{"activations", rounded_to(graph.shape(node.inputs[0])[0])}}};
    if (!has_blocks(graph, node) || !passes::runs_on_target(context, graph, group)) return false;
    auto derive = rewriter.builder().derive(node);
    rewriter.replace_all(node.outputs, append(rewriter, group));
    return true;
  });
}

}  // namespace

constinit const passes::Pass quantize_activations_pass{
    "quantize_activations",
    passes::Stage::kForward,
    passes::Serves::kInference,
    "round activations to 16 bits before GEMMs with quantized weights (with AMX: 8 bits or bf16)",
    "a precision of 1/64,516 of each block's largest value (with AMX 1/254; in bf16 "
    "1/512 of each value)",
    run};

}  // namespace ridge::backends::cpu
