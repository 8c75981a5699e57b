// SPDX-License-Identifier: Apache-2.0
// flash_attention: attention in tiles, without the S x S matrix in memory.
#include "graph/rewriter.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Graph run(const Graph& graph, PassContext& context) {
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    Node node = graph.node(id);
    if (node.op->name == "cached_attention") {
      node.attrs.set("fused", true);
      rewriter.replace(node.outputs[0], rewriter.copy(node)[0]);
      return true;
    }
    if (node.op->name != "attention") return false;
    auto derive = rewriter.builder().derive(node);
    std::vector<ValueId> made =
        rewriter.builder().call_all("flash_attention", rewriter.map(node.inputs), node.attrs);
    rewriter.replace(node.outputs[0], made[0]);
    return true;
  });
}

}  // namespace

const Pass& flash_attention_pass() {
  static const Pass pass{"flash_attention",
                         Stage::kForward,
                         Serves::kBoth,
                         "attention in tiles that never writes the S x S matrix",
                         "",
                         run};
  return pass;
}

}  // namespace ridge::passes
