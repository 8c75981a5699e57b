// SPDX-License-Identifier: Apache-2.0
// Choosing the fused form of a composite: it keeps its node, and expand passes it by.
#pragma once

#include <string_view>

#include "graph/graph.h"

namespace ridge::passes {

// The graph with the attribute `fused` set on every node of the op.
Graph keep_whole(const Graph& graph, std::string_view op);

}  // namespace ridge::passes
