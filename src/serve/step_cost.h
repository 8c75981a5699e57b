// SPDX-License-Identifier: Apache-2.0
// The exact cost of a bucket's run, split among its sequences: each pays for its own work and for a
// share of the common work. Counts only; knows no time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "cost/costed_graph.h"
#include "graph/graph.h"

namespace ridge::serve {

// The part of one sequence that a run computes: `tokens` tokens from position `begin` on.
struct PartExtent {
  int64_t begin = 0;
  int64_t tokens = 1;
  bool samples = true;
};

struct StepCost {
  Work model;                  // the model's work: real tokens and their attended KV entries
  int64_t executed_flops = 0;  // the kernels' FLOPs, including the padding of the bucket
  int64_t read_bytes = 0;      // planned bytes
  int64_t written_bytes = 0;   // planned bytes
  int64_t needed_bytes = 0;    // weights and attended KV entries, each counted once, as for MBU

  StepCost& operator+=(const StepCost& other);
  bool operator==(const StepCost& other) const = default;
};

// The attention cost per KV entry, summed over all layers with the same window.
struct AttentionCost {
  int64_t window = 0;     // 0: all positions
  Work pair;              // work of a token and one KV entry that it attends to
  int64_t key_bytes = 0;  // bytes read per KV entry
};

// A graph's work per token, per row and per KV entry. Nodes that depend on models::kRows, the rows
// of the logits, cost per row, the others per token.
struct LinearWork {
  Work tokens;  // sum over the graph's tokens
  Work rows;    // sum over the graph's rows
  int64_t token_count = 0, row_count = 0;
  std::vector<AttentionCost> attention = {};
};

// Returns the work per token and per row that the model defines, from its graph before any pass.
LinearWork model_work(const Graph& built);

class BucketCost {
 public:
  BucketCost(const LinearWork& model, const cost::CostedGraph& costed);

  // Returns one cost per part, which add up exactly to the cost of the run. Work on tokens and
  // padding is split by tokens, work on logits among the sequences that sample, and common bytes
  // (weights, activations) equally. Each sequence pays for its own keys and values.
  std::vector<StepCost> share(std::span<const PartExtent> parts) const;
  // The data type of most MACs.
  DType product_type() const { return product_type_; }

 private:
  StepCost own_cost(const PartExtent& part) const;

  const LinearWork& model_;
  LinearWork executed_;
  int64_t read_bytes_ = 0, written_bytes_ = 0, weight_bytes_ = 0;  // bytes that all sequences share
  DType product_type_ = DType::kF32;
};

}  // namespace ridge::serve
