// SPDX-License-Identifier: Apache-2.0
// A pass of a person's own: a rewrite rule of two graphs, held against each other and applied as
// passes are.
#pragma once

#include "graph/graph_rule.h"
#include "passes/pass.h"

namespace ridge::bench {

// The largest difference of the replacement from the pattern, both in double precision on the same
// random operands, over the largest magnitude. Composites are expanded as the target does. Throws
// the usage Errors of rewrite_rule, and one for an operand that has two types.
double rule_error(const GraphRule& rule, const passes::PassTarget& target);

// The graph, which must be legal and have origins, after the rule. The result is verified. Throws
// the usage Errors of rewrite_rule.
Graph apply_rule(const Graph& graph, const GraphRule& rule);

}  // namespace ridge::bench
