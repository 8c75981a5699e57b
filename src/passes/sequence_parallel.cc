// SPDX-License-Identifier: Apache-2.0
// sequence_parallel: between its cut products, ranks that share a model keep parts of the tokens
// instead of all of them (Korthikanti et al. 2022, arXiv:2205.05198): norms, residual adds and
// their activations are not repeated. A sum over the ranks leaves each rank its tokens
// (reduce_scatter), and a cut product gathers those of all (all_gather): the same bytes as
// before. Parameters between them, such as those of norms, have a part of their gradient on each.
// A stage of a pipeline receives the rank's tokens from the same rank of the stage before.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "graph/rewriter.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/passes.h"
#include "passes/tensor_shards.h"

namespace ridge::passes {
namespace {

bool is_among_tensor_ranks(const Node& node) { return node.attrs.text("group") == kTensorGroup; }

class TokenParts {
 public:
  // `sum` is one of the graph's sums over ranks.
  TokenParts(const Graph& graph, const Node& sum)
      : graph_(graph),
        among_{{"group", sum.attrs.text("group")}, {"ranks", sum.attrs.integer("ranks")}},
        tokens_(graph.shape(sum.inputs[0])[0]) {
    const int64_t ranks = among_.integer("ranks");
    if (tokens_ % ranks != 0)
      throw usage_error(
          "[sequence-parallel] expected tokens of a batch that {} ranks divide, got {}", ranks,
          tokens_);
  }

  Graph run(const OpTable& ops) {
    return Rewriter(graph_, ops).run([&](Rewriter& rewriter, NodeId id) {
      const Node& node = graph_.node(id);
      if (is_a(node, ops::all_reduce_op()) && is_among_tensor_ranks(node))
        scatter(rewriter, node);
      else if (is_a(node, ops::all_reduce_gradient_op()) && has_part(node))
        gather(rewriter, node);
      else if (has_part(node) || is_a(node, ops::receive_op()))
        make_part(rewriter, node);
      else
        return false;
      return true;
    });
  }

 private:
  bool has_part(const Node& node) const {
    return std::ranges::any_of(node.inputs, [&](ValueId input) { return parts_.contains(input); });
  }

  void scatter(Rewriter& rewriter, const Node& node) {
    auto derive = rewriter.builder().derive(node);
    take(rewriter, node,
         rewriter.builder().call_all("reduce_scatter", rewriter.map(node.inputs), among_));
  }

  void gather(Rewriter& rewriter, const Node& node) {
    auto derive = rewriter.builder().derive(reader_of(node));
    rewriter.replace(node.outputs[0],
                     rewriter.builder().call("all_gather", rewriter.map(node.inputs), among_));
  }

  // A view has no origin: the gathering belongs to the first node that reads what is gathered.
  const Node& reader_of(const Node& view) const {
    for (const Node& node : graph_.nodes)
      if (std::ranges::count(node.inputs, view.outputs[0]) > 0 && !node.from.empty()) return node;
    RIDGE_CHECK(false, "nothing reads a gathered value");
  }

  // The same node on the rank's tokens.
  void make_part(Rewriter& rewriter, Node node) {
    if (is_a(node, ops::reshape_op()) || is_a(node, ops::receive_op()))
      node.attrs.set("shape", of_part(graph_.shape(node.outputs[0])).to_vector());
    Builder& b = rewriter.builder();
    auto derive = b.derive(node);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(operand(rewriter, input));
    take(rewriter, node, b.call_all(node.op->name, inputs, node.attrs));
  }

  ValueId operand(Rewriter& rewriter, ValueId old) {
    const ValueId value = rewriter.map(old);
    if (parts_.contains(old)) return value;
    Builder& b = rewriter.builder();
    // A bias is the same for all tokens.
    if (const Node* node = graph_.producer(old); is_a(node, ops::broadcast_op()))
      return ops::broadcast(b, summed(rewriter, node->inputs[0]), of_part(graph_.shape(old)));
    // A table that is not cut gives every rank all tokens.
    if (graph_.value(old).storage == Storage::kTemporary)
      throw usage_error("[sequence-parallel] expected a vocabulary that {} ranks divide",
                        among_.integer("ranks"));
    return summed(rewriter, old);
  }

  // A value that all ranks have, with the sum of its gradients.
  ValueId summed(Rewriter& rewriter, ValueId old) {
    auto [found, is_new] = summed_.try_emplace(old, kNoValue);
    if (is_new)
      found->second = rewriter.builder().call("all_reduce_gradient", {rewriter.map(old)}, among_);
    return found->second;
  }

  Shape of_part(const Shape& whole) const {
    RIDGE_CHECK(whole[0] == tokens_, "{} is not of {} tokens", whole.str(), tokens_);
    return whole.with(0, tokens_ / among_.integer("ranks"));
  }

  void take(Rewriter& rewriter, const Node& node, const std::vector<ValueId>& made) {
    for (size_t i = 0; i < made.size(); ++i) {
      rewriter.resize(node.outputs[i], made[i]);
      parts_.insert(node.outputs[i]);
    }
  }

  const Graph& graph_;
  Attrs among_;  // the group and its number of ranks
  int64_t tokens_;
  std::set<ValueId> parts_;            // old values of which the ranks have parts
  std::map<ValueId, ValueId> summed_;  // by the old value: its all_reduce_gradient
};

}  // namespace

Graph run_sequence_parallel(const Graph& graph, PassContext& context) {
  const auto sum = std::ranges::find_if(graph.nodes, [](const Node& node) {
    return is_a(node, ops::all_reduce_op()) && is_among_tensor_ranks(node);
  });
  return sum == graph.nodes.end() ? graph : TokenParts(graph, *sum).run(context.ops);
}

}  // namespace ridge::passes
