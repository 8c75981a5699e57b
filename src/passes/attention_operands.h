// SPDX-License-Identifier: Apache-2.0
// q, k and v of an attention, whole or over a cache:
// what passes on projections and rotations look at.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace ridge::passes {

struct AttentionOperands {
  ValueId q, k, v;  // [N,H,E], [N,K,E], [N,K,E]
  bool is_cached;   // k and v of this run's tokens go through a cache
};

// Nothing for another op.
std::optional<AttentionOperands> attention_operands(const Graph& graph, const Node& node);

}  // namespace ridge::passes
