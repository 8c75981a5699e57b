// SPDX-License-Identifier: Apache-2.0
// The verifier: what a legal graph is, as a table of rules. It runs after every pass; a violation
// is Ridge's own fault (an InternalError that prints the node).
#pragma once

#include <span>
#include <string_view>

#include "graph/graph.h"

namespace ridge {
inline namespace graph {

struct Rule {
  std::string_view name;
  std::string_view reason;
  // Returns an empty text when the node keeps the rule, else what is wrong with it.
  std::string (*violation)(const Graph&, NodeId);
};

// The rules about single nodes, in the order they are tried.
std::span<const Rule> rules();

// Throws InternalError with the rule, its reason and the node in text form.
void verify(const Graph& graph);

// Throws unless every origin that `before` holds is still
// in `after`: a rewrite may move work, not lose it.
void verify_origins(const Graph& before, const Graph& after);

}  // namespace graph
}  // namespace ridge
