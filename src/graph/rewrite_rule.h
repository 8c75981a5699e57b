// SPDX-License-Identifier: Apache-2.0
// Local rewrites as rules: where a pattern matches and nothing speaks against it, other nodes take
// the place of those that it named.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "graph/pattern.h"
#include "graph/rewriter.h"

namespace ridge {
inline namespace graph {

struct RewriteRule {
  Pattern pattern;
  // What speaks against it beside the pattern; null: nothing. The first way to match that holds is
  // taken.
  std::function<bool(const Match&)> holds;
  // Makes the new nodes and says which values they replace. Of the nodes that the pattern named
  // those go whose values are replaced or read by others that go alone.
  std::function<void(Rewriter&, const Match&)> replace;
  // The captured node in whose place the new nodes stand, for what they replace may be read before
  // the root; empty: the root. Where a leaf of the pattern is made behind it nothing is replaced.
  std::string at = {};
};

// Each rule from the first root to the last, the first rule first. What a rule has taken, as its
// root or for its root alone, is no root of later rules.
Graph rewrite(const Graph& graph, const OpTable& ops, std::span<const RewriteRule> rules);

}  // namespace graph
}  // namespace ridge
