// SPDX-License-Identifier: Apache-2.0
// How ranks that share a model cut its values: which heads, columns and rows of the vocabulary each
// of them has. The passes shard_tensor_parallel and
// train_tensor_parallel cut a graph so.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/load_graph.h"
#include "passes/pass.h"

namespace ridge::passes {

// The group of the ranks that share a model, and that of those of them that have the same KV heads:
// neighbours, if there are more ranks than KV heads and more than one of these.
inline constexpr const char* kTensorGroup = "tensor";
inline constexpr const char* kKvHeadsGroup = "kv_heads";

// Inputs of a training step that each rank fills for its part of the vocabulary; see
// indices_of_part.
inline constexpr const char* kPartOfIds = "ids.shard";
inline constexpr const char* kPartOfLabels = "labels.shard";

// How a value is cut: into pieces, such as heads, of `unit` elements each.
struct Pieces {
  int64_t count = 1, unit = 1;
  bool may_be_shared = false;  // Ranks beyond their number share a piece.

  bool divide(int64_t ranks) const {
    return count % ranks == 0 || (may_be_shared && ranks % count == 0);
  }
  int64_t own(int64_t ranks) const { return count > ranks ? count / ranks : 1; }
  // The axis of the pieces: a step along the axes behind it stays inside a piece.
  int axis(const Shape& shape) const;
  bool are_cut(int64_t ranks) const { return own(ranks) != count; }
  // The number of ranks that have the same pieces.
  int64_t sharing(int64_t ranks) const { return ranks > count ? ranks / count : 1; }
  Shape own(const Shape& shape, int axis, int64_t ranks) const {
    return shape.with(axis, shape[axis] / count * own(ranks));
  }
};

// The values of a forward graph that are cut, and how. In a graph to train, the vocabulary is cut
// up to the loss, where `ranks` divide it.
class TensorShards {
 public:
  TensorShards(const Graph& graph, int64_t ranks, bool trains);

  const Pieces* find(ValueId value) const {
    const auto found = pieces_.find(value);
    return found == pieces_.end() ? nullptr : &found->second;
  }
  // Weights [out,in] of which a rank has columns.
  const std::map<ValueId, Pieces>& columns() const { return columns_; }
  // The product [N,V] that makes the logits, or kNoValue.
  ValueId head() const { return head_; }
  // Whether each rank has a part of what the node adds up: a product of its columns, or a lookup in
  // its rows.
  bool is_sum(const Node& node) const;

  // Throws a usage Error that lists the numbers of ranks that fit.
  void expect_fitting(int64_t ranks) const;

 private:
  void add_attention(std::span<const ValueId> qkv);
  void add_cached_attention(const Node& node);
  void find_head(ValueId logits);
  void cut_vocabulary(const Node& node, int64_t ranks);
  void cut_rows(ValueId value, const Pieces& pieces);
  void follow(const Node& node);
  bool fits(int64_t ranks) const;

  const Graph& graph_;
  bool trains_;
  std::map<ValueId, Pieces> pieces_, columns_;
  int64_t heads_ = 1, kv_heads_ = 1;
  ValueId head_ = kNoValue;
};

// Cuts a forward graph, to train or of inference, for the number of ranks with which the pass was
// switched on.
Graph shard_model(const Graph& graph, PassContext& context, bool trains);

// The number of ranks, of those that share a model, that have the same elements of a stored
// parameter.
int64_t ranks_with_same(const LoadGraph& load, const std::string& parameter, int64_t ranks);

// A rank's part of a vocabulary: the indices from `begin` to `begin` + `count` - 1.
struct VocabularyPart {
  int64_t begin = 0, count = 0, whole = 0;
};
// Ids or labels counted from the part's first; -1 stays, and `elsewhere` stands for those of other
// parts. Throws a run-time Error for one that no part has.
std::vector<int32_t> indices_of_part(std::span<const int32_t> indices,
                                     const VocabularyPart& part,
                                     int32_t elsewhere);

}  // namespace ridge::passes
