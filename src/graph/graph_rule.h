// SPDX-License-Identifier: Apache-2.0
// A rewrite rule that two graphs say: where the pattern's nodes are found, the replacement's come
// in their place. Knows no numbers: whether both compute the same is the author's promise.
#pragma once

#include <string>

#include "graph/rewrite_rule.h"

namespace ridge::inline graph {

// Both graphs have one output. Operands of the same name are the same value; in the pattern each
// stands for any value. A node fits if its op and its attributes are those of the pattern; extents
// may differ unless an attribute says them. Element types may differ too.
struct GraphRule {
  std::string name;
  Graph pattern, replacement;
};

// Throws usage Errors for a pattern that is no node, that has several outputs or whose root has,
// for an operand of the pattern that its output does not need, and for one that the replacement has
// beyond those of the pattern. The rewrite throws one if the replacement's output has another type.
RewriteRule rewrite_rule(const GraphRule& rule);

// The number of places where the rule applies.
int64_t count_matches(const Graph& graph, const GraphRule& rule);

}  // namespace ridge::inline graph
