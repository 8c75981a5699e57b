// SPDX-License-Identifier: Apache-2.0
// fuse_rms_norm: an RMSNorm in one kernel, with the residual add before it where there is one.
#include "graph/rewriter.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

// The rms_norm that alone among the readers of an add's sum normalises it, or null.
const Node* norm_of_sum(const Graph& graph,
                        const Node& add,
                        const std::vector<std::vector<NodeId>>& users) {
  const Node* norm = nullptr;
  for (NodeId user : users[static_cast<size_t>(add.outputs[0])]) {
    const Node& node = graph.node(user);
    if (node.op->name != "rms_norm" || node.inputs[0] != add.outputs[0]) continue;
    if (norm != nullptr) return nullptr;
    norm = &node;
  }
  return norm;
}

Graph run(const Graph& graph, PassContext& context) {
  std::vector<std::vector<NodeId>> users = graph.users();
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    Node node = graph.node(id);
    Builder& b = rewriter.builder();
    if (node.op->name == "add") {
      const Node* norm = norm_of_sum(graph, node, users);
      // The weight is a parameter, so the norm can stand where the add stood.
      if (norm == nullptr || !rewriter.is_mapped(norm->inputs[1])) return false;
      auto derive = b.derive(merge_origins(node.from, norm->from), norm->scope, norm->phase);
      std::vector<ValueId> made =
          b.call_all("add_rms_norm",
                     {rewriter.map(node.inputs[0]), rewriter.map(node.inputs[1]),
                      rewriter.map(norm->inputs[1])},
                     {{"eps", norm->attrs.real("eps")}, {"offset", norm->attrs.real("offset")}});
      rewriter.replace(node.outputs[0], made[0]);
      rewriter.replace(norm->outputs[0], made[1]);
      rewriter.replace(norm->outputs[1], made[2]);
      return true;
    }
    if (node.op->name != "rms_norm") return false;
    if (rewriter.is_mapped(node.outputs[0])) return true;
    node.attrs.set("fused", true);
    std::vector<ValueId> made = rewriter.copy(node);
    for (size_t i = 0; i < made.size(); ++i) rewriter.replace(node.outputs[i], made[i]);
    return true;
  });
}

}  // namespace

const Pass& fuse_rms_norm_pass() {
  static const Pass pass{"fuse_rms_norm",
                         Stage::kForward,
                         Serves::kBoth,
                         "RMSNorm in one kernel, with the residual add before it",
                         "",
                         run};
  return pass;
}

}  // namespace ridge::passes
