// SPDX-License-Identifier: Apache-2.0
// expand: composites that no pass chose to keep whole (attribute `fused`) become primitives. The
// off switch of each fused op is this form.
#include <utility>

#include "graph/rewriter.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

bool is_kept_whole(const Node& node) { return node.attrs.has("fused") && node.attrs.flag("fused"); }

Graph run(const Graph& graph, PassContext& context) {
  return Rewriter(graph, context.ops).run([](Rewriter& rewriter, NodeId id) {
    Node node = rewriter.old().node(id);
    if (node.op->kind != OpKind::kComposite || is_kept_whole(node)) return false;
    // The new graph has its operands but not its results.
    std::vector<ValueId> outputs = std::exchange(node.outputs, {});
    node.inputs = rewriter.map(node.inputs);
    auto derive = rewriter.builder().derive(node);
    std::vector<ValueId> made = node.op->expand(rewriter.builder(), node);
    for (size_t i = 0; i < made.size(); ++i)
      if (made[i] != kNoValue) rewriter.replace(outputs[i], made[i]);
    return true;
  });
}

}  // namespace

constinit const Pass expand_pass{"expand",
                                 Stage::kForward,
                                 Serves::kBoth,
                                 "expand the remaining composites into primitives",
                                 "primitives are the baseline that every other form must beat",
                                 run};

}  // namespace ridge::passes
