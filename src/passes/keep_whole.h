// SPDX-License-Identifier: Apache-2.0
// Keeps composites in their fused form: the node stays, and expand skips it.
#pragma once

#include "graph/rewrite_rule.h"

namespace ridge::passes {

// Returns the graph with the attribute `fused` set on every node of the op.
Graph keep_whole(const Graph& graph, const Op& op);

// A rule that does the same, for use after other rules: it marks the nodes that they leave.
RewriteRule keep_whole_rule(const Op& op);

}  // namespace ridge::passes
