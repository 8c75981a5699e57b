// SPDX-License-Identifier: Apache-2.0
// quantize_activations: products with weights in quantized blocks round their input to 8 bits, so
// that whole numbers are multiplied; or to bf16 where the target says that it multiplies that
// faster. The last product, a model's head, has 16 bits instead of 8: what it is off by goes into
// the result as it is. Weights are left as they are.
#include <algorithm>
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

// Of each value, whether a product is made of what is computed from it.
std::vector<bool> feeds_product(const Graph& graph) {
  std::vector<bool> feeds(graph.values.size());
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    bool any = node->op->name == "matmul" || is_group(*node);
    for (ValueId output : node->outputs) any = any || feeds[static_cast<size_t>(output)];
    if (!any) continue;
    for (ValueId input : node->inputs) feeds[static_cast<size_t>(input)] = true;
  }
  return feeds;
}

Graph run(const Graph& graph, PassContext& context) {
  const std::vector<bool> feeds = feeds_product(graph);
  const auto is_last = [&](const Node& node) {
    return std::none_of(node.outputs.begin(), node.outputs.end(),
                        [&](ValueId output) { return feeds[static_cast<size_t>(output)]; });
  };
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    const Node& node = graph.node(id);
    if (is_group(node) ? node.attrs.text("activations") != "f32" : !is_stored_product(graph, node))
      return false;
    std::string activations(
        context.target.rounded_activations(graph.type(node.inputs[0]).shape[0]));
    if (activations == "i8" && is_last(node)) activations = "i16";
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
  static const Pass pass{"quantize_activations", Stage::kForward,
                         "round what is multiplied with quantized weights to 8 bits or bf16, "
                         "before the last product to 16 bits",
                         "precision: one part in 254 of each "
                         "block's largest",
                         run};
  return pass;
}

}  // namespace ridge::passes
