// SPDX-License-Identifier: Apache-2.0
// Local rewrites as rules: where a pattern matches and a condition holds, new nodes replace the
// matched ones.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "graph/pattern.h"
#include "graph/rewriter.h"

namespace ridge::inline graph {

struct RewriteRule {
  Pattern pattern;
  // A condition besides the pattern; null if there is none. The first match for which it holds is
  // used.
  std::function<bool(const Match&)> holds;
  // Makes the new nodes and calls Rewriter::replace for the values that they replace. A matched
  // node is removed if its values are replaced or read only by removed nodes.
  std::function<void(Rewriter&, const Match&)> replace;
  // The captured node in whose place the new nodes are inserted, because the values that they
  // replace may be read before the root; empty for the root. The rule does not apply if a leaf of
  // the pattern is produced after that place.
  std::string at = {};
};

// Applies the rules in order, each from the first root to the last. A node that a match has used as
// its root, or that only its root needs, is not the root of later matches.
Graph rewrite(const Graph& graph, const OpTable& ops, std::span<const RewriteRule> rules);

}  // namespace ridge::inline graph
