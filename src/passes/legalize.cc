// SPDX-License-Identifier: Apache-2.0
// legalize: makes every operand one that the target's kernels accept. A view that a kernel cannot
// read, or that no layout can express, gets a copy. Attributes of flash attention are set to the
// number of scores that the target's tiles compute.
#include <algorithm>

#include "base/error.h"
#include "graph/rewriter.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/passes.h"
#include "plan/places.h"

namespace ridge::passes {
namespace {

// The origins of a copy before `node`. A view has no origins, so the copy gets those of a node
// after the views or, failing that, before them.
std::vector<Origin> origins_at(const Graph& graph,
                               const std::vector<std::vector<NodeId>>& users,
                               const Node& node) {
  if (!node.from.empty()) return node.from;
  for (NodeId user : users[static_cast<size_t>(node.outputs[0])]) {
    std::vector<Origin> behind = origins_at(graph, users, graph.node(user));
    if (!behind.empty()) return behind;
  }
  const Node* before = &node;
  while (before != nullptr && before->from.empty()) before = graph.producer(before->inputs[0]);
  return before == nullptr ? std::vector<Origin>() : before->from;
}

// One sweep. Sets `changed` if it inserted a copy: that changes the layouts after it, so another
// sweep is needed.
Graph copy_sweep(const Graph& graph, PassContext& context, bool& changed) {
  std::vector<plan::Place> places = plan::places(graph, &context.target);
  std::vector<ValueId> copies(graph.values.size(), kNoValue);
  std::vector<std::vector<NodeId>> users = graph.users();
  auto needs_copy = [&](const Node& node, size_t i) {
    ValueId input = node.inputs[i];
    const plan::Place& place = plan::at(places, input);
    if (node.op->kind == OpKind::kView)
      return plan::at(places, node.outputs[0]).inexpressible && !place.inexpressible;
    if (is_dense(graph.shape(input), place.layout))
      return !context.target.takes_start(graph, node, static_cast<int>(i), place.layout.offset);
    return !context.target.takes_input(graph, node, static_cast<int>(i), place.layout);
  };
  const auto needs_any = [&](const Node& node) {
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (needs_copy(node, i)) return true;
    return false;
  };
  if (std::ranges::none_of(graph.nodes, needs_any)) return graph;
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    Node node = graph.node(id);
    if (!needs_any(node)) return false;
    changed = true;
    std::vector<ValueId> inputs;
    auto copy_of = [&](ValueId mapped) {
      std::vector<Origin> from = origins_at(graph, users, node);
      std::vector<OriginRecord>& origins = rewriter.builder().graph().origins;
      if (from.empty()) {  // the graph has only views
        from = {{static_cast<int32_t>(origins.size()), node.phase}};
        origins.push_back({"copy", node.scope, node.phase, {}});
      }
      auto derive = rewriter.builder().derive(from, node.scope, node.phase);
      return rewriter.builder().call("copy", {mapped});
    };
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId input = node.inputs[i];
      ValueId mapped = rewriter.map(input);
      if (needs_copy(node, i)) {
        ValueId& copy = copies[static_cast<size_t>(input)];
        if (copy == kNoValue) copy = copy_of(mapped);
        mapped = copy;
      }
      inputs.push_back(mapped);
    }
    auto derive = rewriter.builder().derive(node);
    rewriter.replace_all(node.outputs,
                         rewriter.builder().call_all(node.op->name, inputs, node.attrs));
    return true;
  });
}

Graph with_flash_scores(const Graph& graph, PassContext& context) {
  Graph result = graph;
  for (Node& node : result.nodes) {
    const bool is_backward = is_a(node, ops::flash_attention_backward_op());
    if (!is_backward && !is_a(node, ops::flash_attention_op())) continue;
    CallTypes types(result, node);
    if (is_backward) types.inputs.erase(types.inputs.begin());
    plan::FlashScores scores = context.target.flash_scores(types.call());
    node.attrs.set("scores", scores.forward);
    node.attrs.set("scores_backward", scores.backward);
    node.attrs.set("scores_recomputed", scores.recomputed);
  }
  return result;
}

constexpr int kMostSweeps = 16;

}  // namespace

Graph run_legalize(const Graph& graph, PassContext& context) {
  Graph current = with_flash_scores(graph, context);
  bool changed = true;
  for (int sweep = 0; changed; ++sweep) {
    RIDGE_CHECK(sweep < kMostSweeps, "legalize finds no end");
    changed = false;
    current = copy_sweep(current, context, changed);
  }
  for (const Node& node : current.nodes) {
    std::string missing = context.target.unsupported(current, node);
    if (!missing.empty()) throw usage_error("[{}] {}", node.op->name, missing);
  }
  return current;
}

}  // namespace ridge::passes
