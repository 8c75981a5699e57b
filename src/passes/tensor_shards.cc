// SPDX-License-Identifier: Apache-2.0
// Follows cut values from attention, gates and logits back to their weights, and forward to the
// products that add them up.
#include "passes/tensor_shards.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/printable.h"
#include "ops/pointwise.h"
#include "ops/registry.h"

namespace ridge::passes {

int Pieces::axis(const Shape& shape) const {
  int64_t inner = 1;
  for (int axis = shape.rank() - 1; axis >= 0; inner *= shape[axis--])
    if (inner <= unit && unit < inner * shape[axis]) return axis;
  RIDGE_CHECK(false, "{} has no pieces of {} elements", shape.str(), unit);
}

TensorShards::TensorShards(const Graph& graph, int64_t ranks, bool trains)
    : graph_(graph), trains_(trains) {
  for (const Node& node : graph.nodes) {
    if (is_a(node, ops::attention_op())) add_attention(node.inputs);
    if (is_a(node, ops::cached_attention_op())) add_cached_attention(node);
    if (is_a(node, ops::glu_op()))
      for (const ValueId input : node.inputs) cut_rows(input, {graph.shape(input)[1], 1});
    if (is_a(node, ops::sample_op()) || is_a(node, ops::softmax_cross_entropy_op()))
      find_head(node.inputs[0]);
    if (trains) cut_vocabulary(node, ranks);
  }
  for (const Node& node : graph.nodes) follow(node);
}

// q, k and v, each [N,heads,E].
void TensorShards::add_attention(std::span<const ValueId> qkv) {
  const Shape &q = graph_.shape(qkv[0]), &k = graph_.shape(qkv[1]);
  heads_ = std::max(heads_, q[1]);
  kv_heads_ = std::max(kv_heads_, k[1]);
  cut_rows(qkv[0], {q[1], q[2]});
  for (const ValueId each : qkv.subspan(1, 2)) cut_rows(each, {k[1], k[2], true});
}

void TensorShards::add_cached_attention(const Node& node) {
  const Node* append = graph_.producer(node.inputs[1]);
  RIDGE_CHECK(is_a(append, ops::kv_append_op()), "attention to keys that nothing appends");
  add_attention(std::array{node.inputs[0], append->inputs[2], append->inputs[3]});
  for (const ValueId input : append->inputs)
    if (graph_.value(input).storage == Storage::kState)
      pieces_[input] = pieces_.at(append->inputs[2]);
}

// Logits may be capped, and padding of the vocabulary is cut off.
void TensorShards::find_head(ValueId logits) {
  const Node* node = graph_.producer(logits);
  while (node != nullptr && (is_a(node, ops::slice_op()) || node->op->kind == OpKind::kPointwise))
    node = graph_.producer(node->inputs[0]);
  if (is_a(node, ops::matmul_op()) && graph_.producer(node->inputs[1]) == nullptr)
    head_ = node->outputs[0];
}

// The table of a lookup, or the head behind a loss.
void TensorShards::cut_vocabulary(const Node& node, int64_t ranks) {
  if (is_a(node, ops::embedding_op()) && graph_.producer(node.inputs[0]) == nullptr)
    if (const int64_t rows = graph_.shape(node.inputs[0])[0]; rows % ranks == 0)
      cut_rows(node.inputs[0], {rows, 1});
  if (is_a(node, ops::softmax_cross_entropy_op()) && head_ != kNoValue)
    if (const int64_t rows = graph_.shape(head_)[1]; rows % ranks == 0) cut_rows(head_, {rows, 1});
}

// Marks the parameters that a value is made from.
void TensorShards::cut_rows(ValueId value, const Pieces& pieces) {
  pieces_[value] = pieces;
  const Node* node = graph_.producer(value);
  if (node == nullptr) return;
  if (is_a(node, ops::matmul_op())) return cut_rows(node->inputs[1], pieces);
  cut_rows(node->inputs[0], pieces);
  if (is_a(node, ops::pointwise_op(Pointwise::kAdd)))
    cut_rows(node->inputs[1], pieces);  // a bias, or the product of an adapter
}

bool TensorShards::is_sum(const Node& node) const {
  const bool is_lookup =
      is_a(node, ops::embedding_op()) && graph_.producer(node.inputs[0]) == nullptr;
  return (is_lookup || is_a(node, ops::matmul_op())) && find(node.inputs[0]) != nullptr;
}

// Marks what a node makes from pieces. A sum over them ends there.
void TensorShards::follow(const Node& node) {
  if (is_a(node, ops::matmul_op()))
    if (const Pieces* pieces = find(node.inputs[0])) columns_[node.inputs[1]] = *pieces;
  if (is_a(node, ops::matmul_op()) || is_sum(node)) return;
  if (trains_ && is_a(node, ops::softmax_cross_entropy_op())) return;
  // The order of a quantized matrix's columns mixes those of all ranks.
  if (is_a(node, ops::embedding_op()) && find(node.inputs[0]) != nullptr &&
      graph_.value(node.inputs[1]).storage == Storage::kParameter)
    throw usage_error(
        "[tensor-parallel] expected matrices with their columns in the model's order, found "
        "act-order: {}",
        printable(graph_.value(node.inputs[1]).name));
  for (const ValueId input : node.inputs)
    if (const Pieces* pieces = find(input)) {
      for (const ValueId output : node.outputs) pieces_.try_emplace(output, *pieces);
      return;
    }
}

bool TensorShards::fits(int64_t ranks) const {
  const auto divides = [&](const auto& each) { return each.second.divide(ranks); };
  return std::ranges::all_of(pieces_, divides) && std::ranges::all_of(columns_, [&](auto& each) {
           const auto& [weight, pieces] = each;
           const Type& type = graph_.type(weight);
           return type.shape[1] / ranks % info(type.dtype).elements_per_block == 0;
         });
}

void TensorShards::expect_fitting(int64_t ranks) const {
  if (fits(ranks)) return;
  std::vector<int64_t> fitting;
  for (int64_t each = 1; each <= heads_; ++each)
    if (fits(each)) fitting.push_back(each);
  throw usage_error(
      "[tensor-parallel] expected {} ranks, which divide {} heads, {} KV heads and the MLP, in "
      "whole blocks of quantized weights, got {}",
      fmt::join(fitting, ", "), heads_, kv_heads_, ranks);
}

int64_t ranks_with_same(const LoadGraph& load, const std::string& parameter, int64_t ranks) {
  ValueId value = load.stored.at(parameter);
  for (const Node* node = load.graph.producer(value); node != nullptr;
       node = load.graph.producer(value)) {
    const ValueId from = node->inputs[0];
    if (is_a(node, ops::slice_op()) && load.graph.producer(from) == nullptr)
      return ranks * load.graph.shape(value).elements() / load.graph.shape(from).elements();
    value = from;
  }
  return ranks;
}

std::vector<int32_t> indices_of_part(std::span<const int32_t> indices,
                                     const VocabularyPart& part,
                                     int32_t elsewhere) {
  std::vector<int32_t> own;
  own.reserve(indices.size());
  for (const int32_t each : indices) {
    if (each < -1 || each >= part.whole)
      throw runtime_error("[tensor-parallel] expected ids from -1 to {}, got {}", part.whole - 1,
                          each);
    const int64_t at = each - part.begin;
    own.push_back(each < 0                     ? -1
                  : at >= 0 && at < part.count ? static_cast<int32_t>(at)
                                               : elsewhere);
  }
  return own;
}

}  // namespace ridge::passes
