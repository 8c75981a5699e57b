// SPDX-License-Identifier: Apache-2.0
// The exact cost of a run of a bucket for the sequences that share it: what each of them adds by
// itself, and its part of what all share. Counts only; knows no time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "cost/costed_graph.h"
#include "graph/graph.h"

namespace ridge::serve {

// What a run computes of one sequence: `tokens` tokens from position `begin` on.
struct PartExtent {
  int64_t begin = 0;
  int64_t tokens = 1;
  bool samples = true;
};

struct StepCost {
  Work model;                  // of the model: real tokens, each with the keys that it attends to
  int64_t executed_flops = 0;  // of the kernels: with the padding of the bucket
  int64_t read_bytes = 0;      // planned
  int64_t written_bytes = 0;
  int64_t needed_bytes = 0;  // of weights and attended KV entries, each once, as MBU counts them

  StepCost& operator+=(const StepCost& other);
  bool operator==(const StepCost& other) const = default;
};

// Attention grows with the positions that are there. All layers of one window are one kind.
struct AttentionCost {
  int64_t window = 0;     // 0: all positions
  Work pair;              // of a token and a key that it attends to
  int64_t key_bytes = 0;  // read of a position
};

// A graph's work in the parts that it is linear in. Nodes that depend on the rows for which logits
// are computed (models::kRows) cost by sequence, the others by token.
struct LinearWork {
  Work tokens;  // of all tokens of the graph
  Work rows;    // of all its rows
  int64_t token_count = 0, row_count = 0;
  std::vector<AttentionCost> attention = {};
};

// What the model defines, from its graph before any pass.
LinearWork model_work(const Graph& built);

class BucketCost {
 public:
  BucketCost(const LinearWork& model, const cost::CostedGraph& costed);

  // One cost per part. Their sum is the cost of the run: rounding is shared out too. The kernels'
  // work on tokens and padding is shared by tokens, that on logits by sequences that sample, bytes
  // that all read (weights) or write are shared equally; a sequence's keys and values are its own.
  std::vector<StepCost> share(std::span<const PartExtent> parts) const;
  // The type in which most MACs are.
  DType product_type() const { return product_type_; }

 private:
  StepCost own_cost(const PartExtent& part) const;

  const LinearWork& model_;
  LinearWork executed_;
  int64_t read_bytes_ = 0, written_bytes_ = 0, weight_bytes_ = 0;  // shared by all
  DType product_type_ = DType::kF32;
};

}  // namespace ridge::serve
