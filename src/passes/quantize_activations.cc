// SPDX-License-Identifier: Apache-2.0
// quantize_activations: products with weights in quantized blocks round their input to 16 bits, so
// that whole numbers are multiplied; or to bf16 where the target says that it multiplies that
// faster. Weights are left as they are.
#include <string>
#include <vector>

#include "graph/rewriter.h"
#include "passes/passes.h"
#include "passes/stored_product.h"

namespace ridge::passes {
namespace {

bool has_blocks(const Graph& graph, const Node& node) {
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (is_block(graph.type(node.inputs[i]).dtype)) return true;
  return false;
}

bool is_group(const Node& node) { return node.op->name == "matmul_group"; }

Graph run(const Graph& graph, PassContext& context) {
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    const Node& node = graph.node(id);
    if (is_group(node) ? node.attrs.text("activations") != "f32" : !is_stored_product(graph, node))
      return false;
    const std::string activations(
        context.target.rounded_activations(graph.type(node.inputs[0]).shape[0]));
    if (!has_blocks(graph, node) || !runs_group(context, graph, node.inputs, activations))
      return false;
    auto derive = rewriter.builder().derive(node);
    std::vector<ValueId> made = rewriter.builder().call_all(
        "matmul_group", rewriter.map(node.inputs), {{"activations", activations}});
    for (size_t i = 0; i < made.size(); ++i) rewriter.replace(node.outputs[i], made[i]);
    return true;
  });
}

}  // namespace

const Pass& quantize_activations_pass() {
  static const Pass pass{
      "quantize_activations", Stage::kForward,
      "round what is multiplied with quantized weights to 16 bits, beside AMX to 8 bits or bf16",
      "precision: one part in 64,516 of each block's largest, beside AMX one in 254, in bf16 one "
      "in 512 of each number",
      run};
  return pass;
}

}  // namespace ridge::passes
