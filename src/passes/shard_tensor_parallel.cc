// SPDX-License-Identifier: Apache-2.0
// shard_tensor_parallel: ranks share a model (Shoeybi et al. 2019, Megatron-LM). A rank has some of
// the heads of each attention and some of the columns of each gated MLP: it multiplies by those
// rows of the weights before them and by those columns of the weight after them, and the products
// are added up over the ranks. Of the vocabulary, each rank has a part of the logits, and all ranks
// gather them. All else is the same on every rank. Only the load graph depends on the rank.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/rewriter.h"
#include "ops/build.h"
#include "ops/pointwise.h"
#include "ops/registry.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

constexpr const char* kGroup = "tensor";

// How a value is cut: into pieces, such as heads, of `unit` elements each.
struct Pieces {
  int64_t count = 1, unit = 1;
  bool are_shared = false;  // Ranks beyond their number share a piece.

  bool divide(int64_t ranks) const {
    return count % ranks == 0 || (are_shared && ranks % count == 0);
  }
  int64_t own(int64_t ranks) const { return std::max<int64_t>(count / ranks, 1); }
  // The axis of the pieces: a step along the axes behind it stays inside a piece.
  int axis(const Shape& shape) const {
    int64_t inner = 1;
    for (int axis = shape.rank() - 1; axis >= 0; inner *= shape[axis--])
      if (inner <= unit && unit < inner * shape[axis]) return axis;
    RIDGE_CHECK(false, "{} has no pieces of {} elements", shape.str(), unit);
  }
  bool are_cut(int64_t ranks) const { return own(ranks) != count; }
  Shape own(const Shape& shape, int axis, int64_t ranks) const {
    return shape.with(axis, shape[axis] / count * own(ranks));
  }
};

// The values of a graph that are cut, and how.
class Shards {
 public:
  explicit Shards(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes) {
      if (is_a(node, ops::attention_op())) add_attention(node.inputs);
      if (is_a(node, ops::cached_attention_op())) add_cached_attention(node);
      if (is_a(node, ops::glu_op()))
        for (const ValueId input : node.inputs) cut_rows(input, {graph.shape(input)[1], 1});
      if (is_a(node, ops::sample_op()) || is_a(node, ops::softmax_cross_entropy_op()))
        find_head(node.inputs[0]);
    }
    for (const Node& node : graph.nodes) follow(node);
  }

  bool empty() const { return pieces_.empty(); }
  const Pieces* find(ValueId value) const {
    const auto found = pieces_.find(value);
    return found == pieces_.end() ? nullptr : &found->second;
  }
  // Weights [out,in] of which a rank has columns.
  const std::map<ValueId, Pieces>& columns() const { return columns_; }

  // The product [N,V] that makes the logits, or kNoValue.
  ValueId head() const { return head_; }

  // Throws a usage Error that lists the numbers of ranks that fit.
  void expect_fitting(int64_t ranks) const {
    if (fits(ranks)) return;
    std::vector<int64_t> fitting;
    for (int64_t each = 1; each <= heads_; ++each)
      if (fits(each)) fitting.push_back(each);
    throw usage_error(
        "[tensor-parallel] expected {} ranks, which divide {} heads, {} KV heads and the MLP, in "
        "whole blocks of quantized weights, got {}",
        fmt::join(fitting, ", "), heads_, kv_heads_, ranks);
  }

 private:
  // q, k and v, each [N,heads,E].
  void add_attention(std::span<const ValueId> qkv) {
    const Shape &q = graph_.shape(qkv[0]), &k = graph_.shape(qkv[1]);
    heads_ = std::max(heads_, q[1]);
    kv_heads_ = std::max(kv_heads_, k[1]);
    cut_rows(qkv[0], {q[1], q[2]});
    for (const ValueId each : qkv.subspan(1, 2)) cut_rows(each, {k[1], k[2], true});
  }
  void add_cached_attention(const Node& node) {
    const Node* append = graph_.producer(node.inputs[1]);
    RIDGE_CHECK(is_a(append, ops::kv_append_op()), "attention to keys that nothing appends");
    add_attention(std::array{node.inputs[0], append->inputs[2], append->inputs[3]});
    for (const ValueId input : append->inputs)
      if (graph_.value(input).storage == Storage::kState)
        pieces_[input] = pieces_.at(append->inputs[2]);
  }

  // Logits may be capped, and padding of the vocabulary is cut off.
  void find_head(ValueId logits) {
    const Node* node = graph_.producer(logits);
    while (node != nullptr && (is_a(node, ops::slice_op()) || node->op->kind == OpKind::kPointwise))
      node = graph_.producer(node->inputs[0]);
    if (is_a(node, ops::matmul_op()) && graph_.producer(node->inputs[1]) == nullptr)
      head_ = node->outputs[0];
  }

  // Marks the parameters that a value is made from.
  void cut_rows(ValueId value, const Pieces& pieces) {
    pieces_[value] = pieces;
    const Node* node = graph_.producer(value);
    if (node == nullptr) return;
    if (is_a(node, ops::matmul_op())) return cut_rows(node->inputs[1], pieces);
    cut_rows(node->inputs[0], pieces);
    if (is_a(node, ops::pointwise_op(Pointwise::kAdd)))
      cut_rows(node->inputs[1], pieces);  // a bias
  }

  // Marks what a node makes from pieces. A sum over them ends there.
  void follow(const Node& node) {
    if (is_a(node, ops::matmul_op())) {
      if (const Pieces* pieces = find(node.inputs[0])) columns_[node.inputs[1]] = *pieces;
      return;
    }
    for (const ValueId input : node.inputs)
      if (const Pieces* pieces = find(input)) {
        for (const ValueId output : node.outputs) pieces_.try_emplace(output, *pieces);
        return;
      }
  }

  bool fits(int64_t ranks) const {
    const auto divides = [&](const auto& each) { return each.second.divide(ranks); };
    return std::ranges::all_of(pieces_, divides) && std::ranges::all_of(columns_, [&](auto& each) {
             const auto& [weight, pieces] = each;
             const Type& type = graph_.type(weight);
             return type.shape[1] / ranks % info(type.dtype).elements_per_block == 0;
           });
  }

  const Graph& graph_;
  std::map<ValueId, Pieces> pieces_, columns_;
  int64_t heads_ = 1, kv_heads_ = 1;
  ValueId head_ = kNoValue;
};

class Sharder {
 public:
  Sharder(const Graph& graph, PassContext& context, int64_t ranks)
      : context_(context), ranks_(ranks), shards_(graph), own_(graph) {
    shards_.expect_fitting(ranks);
    for (size_t i = 0; i < graph.values.size(); ++i)
      if (graph.values[i].producer == kNoNode) cut(static_cast<ValueId>(i));
    if (shards_.head() != kNoValue) cut_head();
  }

  Graph run() {
    return Rewriter(own_, context_.ops).run([&](Rewriter& rewriter, NodeId id) {
      const Node& node = own_.node(id);
      const bool is_sum = is_a(node, ops::matmul_op()) && shards_.find(node.inputs[0]) != nullptr;
      if (is_sum)
        join(rewriter, node, "all_reduce", {});
      else if (has_cut_head_ && node.outputs[0] == shards_.head())
        join(rewriter, node, "all_gather", {{"axis", int64_t{1}}});
      else if (shards_.find(node.outputs[0]) != nullptr)
        copy_own(rewriter, node);
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

  // Puts a collective after a product of the rank's pieces.
  void join(Rewriter& rewriter, const Node& node, std::string_view op, Attrs attrs) {
    const ValueId product = rewriter.copy(node)[0];
    auto derive = rewriter.builder().derive(node);
    attrs.set("group", std::string(kGroup));
    attrs.set("ranks", ranks_);
    rewriter.replace(node.outputs[0], rewriter.builder().call(op, {product}, attrs));
  }

  // The same node on the rank's pieces.
  void copy_own(Rewriter& rewriter, Node node) {
    const Pieces& pieces = *shards_.find(node.outputs[0]);
    const bool has_shape = is_a(node, ops::reshape_op()) || is_a(node, ops::broadcast_op());
    if (has_shape && pieces.are_cut(ranks_)) {
      const Shape& shape = own_.shape(node.outputs[0]);
      node.attrs.set("shape", pieces.own(shape, pieces.axis(shape), ranks_).to_vector());
    }
    const std::vector<ValueId> made = rewriter.copy(node);
    for (size_t i = 0; i < made.size(); ++i) rewriter.resize(node.outputs[i], made[i]);
  }

  PassContext& context_;
  int64_t ranks_;
  Shards shards_;
  Graph own_;  // the graph with the rank's extents of parameters and states
  bool has_cut_head_ = false;
};

}  // namespace

Graph run_shard_tensor_parallel(const Graph& graph, PassContext& context) {
  const int64_t ranks = context.number.value_or(1);
  const bool is_done = std::ranges::any_of(graph.nodes, [](const Node& node) {
    return is_collective(node) && node.attrs.text("group") == kGroup;
  });
  return ranks == 1 || is_done ? graph : Sharder(graph, context, ranks).run();
}

}  // namespace ridge::passes
