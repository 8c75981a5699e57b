// SPDX-License-Identifier: Apache-2.0
// Choosing the fused form of a composite: it keeps its node, and expand passes it by.
#pragma once

#include "graph/rewrite_rule.h"

namespace ridge::passes {

// The graph with the attribute `fused` set on every node of the op.
Graph keep_whole(const Graph& graph, const Op& op);

// The same beside other rules, for nodes that those leave.
RewriteRule keep_whole_rule(const Op& op);

}  // namespace ridge::passes
