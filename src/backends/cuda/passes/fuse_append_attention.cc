// SPDX-License-Identifier: Apache-2.0
// fuse_append_attention: a rope_append and the attention over the cache that it appends to become
// one kernel, where nothing else reads what passes between them. Where the target has it.
#include <algorithm>

#include "backends/cuda/passes/passes.h"
#include "graph/rewriter.h"
#include "passes/target_call.h"

namespace ridge::backends::cuda {
namespace {

class Fuser {
 public:
  Fuser(const Graph& graph, passes::PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()) {}

  bool visit(Rewriter& rewriter, const Node& node) const {
    if (node.op->name == "rope_append") return attention_behind(node) != nullptr;  // made there
    if (node.op->name != "cached_attention") return false;
    const Node* append = graph_.producer(node.inputs[0]);
    if (append == nullptr || append->op->name != "rope_append" ||
        attention_behind(*append) != &node)
      return false;
    auto derive =
        rewriter.builder().derive(merge_origins(append->from, node.from), node.scope, node.phase);
    std::vector<ValueId> made = rewriter.builder().call_all(
        "append_attention", rewriter.map(append->inputs), attrs_of(*append, node));
    rewriter.replace(append->outputs[0], made[0]);
    rewriter.replace(append->outputs[1], made[1]);
    rewriter.replace(node.outputs[0], made[2]);
    return true;
  }

 private:
  static Attrs attrs_of(const Node& append, const Node& attention) {
    Attrs attrs = append.attrs;
    for (const char* name : {"window", "context"}) attrs.set(name, attention.attrs.integer(name));
    attrs.set("scale", attention.attrs.real("scale"));
    return attrs;
  }

  // The one reader of all that the append leaves, or null.
  const Node* attention_behind(const Node& append) const {
    const std::vector<NodeId>& readers = users_[static_cast<size_t>(append.outputs[2])];
    if (readers.size() != 1) return nullptr;
    const Node& attention = graph_.node(readers[0]);
    if (attention.op->name != "cached_attention" || attention.inputs[0] != append.outputs[2] ||
        !attention.attrs.flag("fused"))
      return nullptr;
    for (size_t i : {size_t{0}, size_t{1}, size_t{2}}) {
      auto at = std::find(graph_.outputs.begin(), graph_.outputs.end(), append.outputs[i]);
      if (at != graph_.outputs.end()) return nullptr;
      for (NodeId user : users_[static_cast<size_t>(append.outputs[i])])
        if (user != readers[0]) return nullptr;
    }
    bool is_same_cache = attention.inputs[1] == append.outputs[0] &&
                         attention.inputs[2] == append.outputs[1] &&
                         std::equal(attention.inputs.begin() + 3, attention.inputs.begin() + 6,
                                    append.inputs.begin() + 5);
    bool runs = is_same_cache && passes::runs_on_target(context_, graph_, "append_attention",
                                                        append.inputs, attrs_of(append, attention));
    return runs ? &attention : nullptr;
  }

  const Graph& graph_;
  passes::PassContext& context_;
  std::vector<std::vector<NodeId>> users_;
};

Graph run(const Graph& graph, passes::PassContext& context) {
  Fuser fuser(graph, context);
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    return fuser.visit(rewriter, graph.node(id));
  });
}

}  // namespace

const passes::Pass& fuse_append_attention_pass() {
  static const passes::Pass pass{"fuse_append_attention",
                                 passes::Stage::kStep,
                                 passes::Serves::kInference,
                                 "rotate, append and attend in one kernel",
                                 "",
                                 run};
  return pass;
}

}  // namespace ridge::backends::cuda
