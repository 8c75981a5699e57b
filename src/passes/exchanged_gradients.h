// SPDX-License-Identifier: Apache-2.0
// Shared by data_parallel and zero: the buckets in which ranks exchange gradients, and how a value
// that a collective overwrites or averages is found.
#pragma once

#include <limits>
#include <vector>

#include "graph/rewriter.h"
#include "passes/pass.h"

namespace ridge::passes {

// The group of the ranks that have the same parameters and train on different sequences.
inline constexpr const char* kDataGroup = "data";

// Values that are exchanged together.
struct Bucket {
  NodeId ready = kNoNode;  // the last node that makes one of its values
  int64_t bytes = 0;
  std::vector<ValueId> values = {};
  NodeId summed = std::numeric_limits<NodeId>::max();  // the first one that adds a value to a sum
};

class ExchangedGradients {
 public:
  explicit ExchangedGradients(const Graph& graph) : graph_(graph), users_(graph.users()) {}

  const std::vector<NodeId>& users(ValueId value) const {
    return users_[static_cast<size_t>(value)];
  }
  // Whether the node casts 16 bits to fp32.
  bool is_widening_cast(const Node& node) const;
  // A gradient that a cast widens for the update is exchanged in its 16 bits.
  ValueId exchanged(ValueId gradient) const;
  // In the order in which the backward pass makes them. Leaves out what a collective made. A bucket
  // is ready before a sum of micro-batches reads it.
  std::vector<Bucket> buckets(std::span<const ValueId> gradients) const;
  // The scalar outputs of the forward pass that no collective made.
  std::vector<ValueId> losses() const;
  // The origins of the nodes that make the values and of the updates that read them.
  std::vector<Origin> origins(std::span<const ValueId> values) const;
  // Whether something other than the update reads the buffer that an exchange overwrites.
  bool needs_copy(ValueId value) const;

 private:
  bool is_done(ValueId value) const;
  // The first node that adds the gradient to a sum of micro-batches.
  NodeId first_sum(ValueId value) const;

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
};

}  // namespace ridge::passes
