// SPDX-License-Identifier: Apache-2.0
// shard_tensor_parallel: ranks share a model (Shoeybi et al. 2019, Megatron-LM). A rank has some of
// the heads of each attention and some of the columns of each gated MLP: it multiplies by those
// rows of the weights before them and by those columns of the weight after them, and the products
// are added up over the ranks. Of the vocabulary, each rank has a part of the logits, and all ranks
// gather them; in training (train_tensor_parallel), ids are looked up and losses computed in parts,
// too, and each rank adds its part to the gradient of what a cut product reads whole. All else is
// the same on every rank. Only the load graph and the data depend on the rank.
#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "graph/rewriter.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/nodes.h"
#include "passes/passes.h"
#include "passes/tensor_shards.h"

namespace ridge::passes {
namespace {

// For each value, whether it is a parameter or made from one, here or in the stage before.
std::vector<bool> values_of_parameters(const Graph& graph) {
  std::vector<bool> parameters;
  for (const Value& value : graph.values)
    parameters.push_back(value.storage == Storage::kParameter);
  return made_from(graph, std::move(parameters),
                   [](const Node& node) { return is_a(node, ops::receive_op()); });
}

class Sharder {
 public:
  Sharder(const Graph& graph, PassContext& context, int64_t ranks, bool trains)
      : context_(context),
        ranks_(ranks),
        trains_(trains),
        shards_(graph, ranks, trains),
        is_trained_(values_of_parameters(graph)),
        own_(graph) {
    shards_.expect_fitting(ranks);
    for (size_t i = 0; i < graph.values.size(); ++i)
      if (graph.values[i].producer == kNoNode) cut(static_cast<ValueId>(i));
    if (shards_.head() != kNoValue && !trains) cut_head();
  }

  Graph run() {
    return Rewriter(own_, context_.ops).run([&](Rewriter& rewriter, NodeId id) {
      const Node& node = own_.node(id);
      if (shards_.is_sum(node))
        join(rewriter, node, "all_reduce", {});
      else if (has_cut_head_ && node.outputs[0] == shards_.head())
        join(rewriter, node, "all_gather", {{"axis", int64_t{1}}});
      else if (trains_ && is_a(node, ops::softmax_cross_entropy_op()) &&
               shards_.find(node.inputs[0]) != nullptr)
        join_loss(rewriter, node);
      else if (shards_.find(node.outputs[0]) != nullptr)
        make_own(rewriter, node);
      else
        return false;
      return true;
    });
  }

 private:
  // Gives a parameter or a state the rank's extents.
  void cut(ValueId id) {
    Value& value = own_.value(id);
    if (const auto found = shards_.columns().find(id); found != shards_.columns().end())
      return cut_parameter(value, found->second, 1);
    const Pieces* pieces = shards_.find(id);
    if (pieces == nullptr || !pieces->are_cut(ranks_)) return;
    if (value.storage == Storage::kParameter) return cut_parameter(value, *pieces, 0);
    // A cache is [blocks,tokens,K,E], its scales are [blocks,K,tokens].
    value.type.shape = pieces->own(value.type.shape, value.type.shape.rank() == 4 ? 2 : 1, ranks_);
  }
  void cut_parameter(Value& value, const Pieces& pieces, int axis) {
    Builder load(context_.load.graph, context_.ops);
    load.set_phase(Phase::kLoad);
    ValueId& stored = context_.load.stored.at(value.name);
    const int64_t first = context_.load.rank * pieces.count / ranks_;
    const int64_t begin = first * pieces.unit, end = begin + pieces.own(ranks_) * pieces.unit;
    const Node* cast = load.graph().producer(stored);
    const ValueId file = cast == nullptr ? stored : cast->inputs[0];
    stored = ops::cast(load, ops::slice(load, file, axis, begin, end), value.type.dtype);
    value.type.shape = load.shape(stored);
  }

  // A table that tokens are looked up in stays whole, and the rank's rows of it are stored again.
  void cut_head() {
    Node& node = own_.node(own_.value(shards_.head()).producer);
    const Value weight = own_.value(node.inputs[1]);
    if (weight.type.shape[0] % ranks_ != 0) return;
    has_cut_head_ = true;
    if (own_.users()[static_cast<size_t>(node.inputs[1])].size() > 1) {
      const std::string name = weight.name + ".shard";
      context_.load.stored[name] = context_.load.stored.at(weight.name);
      node.inputs[1] = Builder(own_, context_.ops).parameter(name, weight.type);
    }
    cut_parameter(own_.value(node.inputs[1]), {weight.type.shape[0], 1}, 0);
  }

  static Attrs among(const char* group, int64_t ranks) {
    return {{"group", std::string(group)}, {"ranks", ranks}};
  }

  // Puts a collective after a product, or a lookup, of the rank's pieces.
  void join(Rewriter& rewriter, const Node& node, std::string_view op, Attrs attrs) {
    Builder& b = rewriter.builder();
    auto derive = b.derive(node);
    std::vector<ValueId> inputs = inputs_of(rewriter, node);
    if (is_a(node, ops::embedding_op())) inputs[1] = b.input(kPartOfIds, b.type(inputs[1]));
    const ValueId product = b.call(node.op->name, inputs, node.attrs);
    for (const auto& [name, value] : among(kTensorGroup, ranks_)) attrs.set(name, value);
    rewriter.replace(node.outputs[0], b.call(op, {product}, attrs));
  }

  void join_loss(Rewriter& rewriter, const Node& node) {
    Builder& b = rewriter.builder();
    auto derive = b.derive(node);
    const ValueId logits = rewriter.map(node.inputs[0]),
                  labels = b.input(kPartOfLabels, b.type(rewriter.map(node.inputs[1])));
    const std::vector<ValueId> part = b.call_all("cross_entropy_part", {logits, labels}),
                               all = b.call_all("all_gather", part, among(kTensorGroup, ranks_));
    rewriter.replace_all(node.outputs,
                         b.call_all("cross_entropy_of_parts", {logits, labels, all[0], all[1]}));
  }

  // The same node on the rank's pieces.
  void make_own(Rewriter& rewriter, Node node) {
    const Pieces& pieces = *shards_.find(node.outputs[0]);
    const bool has_shape = is_a(node, ops::reshape_op()) || is_a(node, ops::broadcast_op());
    if (has_shape && pieces.are_cut(ranks_)) {
      const Shape& shape = own_.shape(node.outputs[0]);
      node.attrs.set("shape", pieces.own(shape, pieces.axis(shape), ranks_).to_vector());
    }
    Builder& b = rewriter.builder();
    auto derive = b.derive(node);
    const std::vector<ValueId> made =
        b.call_all(node.op->name, inputs_of(rewriter, node), node.attrs);
    for (size_t i = 0; i < made.size(); ++i) rewriter.resize(node.outputs[i], made[i]);
  }

  // The operands, of which those that several ranks have the same get the sum of their gradients.
  std::vector<ValueId> inputs_of(Rewriter& rewriter, const Node& node) {
    std::vector<ValueId> inputs = rewriter.map(node.inputs);
    if (!trains_) return inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId old = node.inputs[i];
      const Pieces* pieces = shards_.find(old);
      const bool is_whole = pieces == nullptr && !shards_.columns().contains(old);
      const bool is_parameter = own_.producer(old) == nullptr;
      int64_t same = is_whole ? ranks_ : 1;
      if (is_parameter && pieces != nullptr) same = pieces->sharing(ranks_);
      if (same == 1 || !is_trained_[static_cast<size_t>(old)]) continue;
      auto [found, is_new] = summed_.try_emplace(old, kNoValue);
      if (is_new)
        found->second =
            rewriter.builder().call("all_reduce_gradient", {inputs[i]},
                                    among(same == ranks_ ? kTensorGroup : kKvHeadsGroup, same));
      inputs[i] = found->second;
    }
    return inputs;
  }

  PassContext& context_;
  int64_t ranks_;
  bool trains_;
  TensorShards shards_;
  std::vector<bool> is_trained_;  // by the value: whether a gradient may reach it
  Graph own_;                     // the graph with the rank's extents of parameters and states
  bool has_cut_head_ = false;
  std::map<ValueId, ValueId> summed_;  // by the old value: its all_reduce_gradient
};

}  // namespace

Graph shard_model(const Graph& graph, PassContext& context, bool trains) {
  const int64_t ranks = context.number.value_or(1);
  const bool is_done = std::ranges::any_of(graph.nodes, [](const Node& node) {
    return is_collective(node) && node.attrs.text("group") == kTensorGroup;
  });
  return ranks == 1 || is_done ? graph : Sharder(graph, context, ranks, trains).run();
}

Graph run_shard_tensor_parallel(const Graph& graph, PassContext& context) {
  return shard_model(graph, context, false);
}

}  // namespace ridge::passes
