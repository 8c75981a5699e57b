// SPDX-License-Identifier: Apache-2.0
// expand: replaces composites by primitives, except those that a pass keeps whole (attribute
// `fused`). A fused op that is switched off runs in this form.
#include <utility>

#include "graph/rewriter.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

bool is_kept_whole(const Node& node) { return node.attrs.has("fused") && node.attrs.flag("fused"); }

}  // namespace

Graph run_expand(const Graph& graph, PassContext& context) {
  return Rewriter(graph, context.ops).run([](Rewriter& rewriter, NodeId id) {
    Node node = rewriter.old().node(id);
    if (node.op->kind != OpKind::kComposite || is_kept_whole(node)) return false;
    // The new graph has the node's operands but not its results.
    std::vector<ValueId> outputs = std::exchange(node.outputs, {});
    node.inputs = rewriter.map(node.inputs);
    auto derive = rewriter.builder().derive(node);
    Builder& builder = rewriter.builder();
    const size_t before = builder.graph().nodes.size();
    std::vector<ValueId> made = node.op->expand(builder, node);
    // A composite that leaves its operand as it is becomes a view, which keeps the origin.
    if (builder.graph().nodes.size() == before)
      for (ValueId& each : made)
        each = builder.call("reshape", {each}, {{"shape", builder.shape(each).to_vector()}});
    for (size_t i = 0; i < made.size(); ++i)
      if (made[i] != kNoValue) rewriter.replace(outputs[i], made[i]);
    return true;
  });
}

}  // namespace ridge::passes
