// SPDX-License-Identifier: Apache-2.0
// Counts the bytes of a graph as if each node were a kernel of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "graph/graph.h"

namespace ridge::bench {

// Each node reads its operands and writes its results once, a softmax passes five times over its
// scores, and attention seven times (docs/accounting.md); views move nothing. Empty where a value
// is in blocks, or where a node updates a state and so moves only a part of it.
std::optional<int64_t> unfused_bytes(const Graph& graph);

}  // namespace ridge::bench
