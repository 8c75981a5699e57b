// SPDX-License-Identifier: Apache-2.0
// The verifier checks that a graph is legal, with a table of rules. It runs after every pass; a
// violation is a bug in Ridge (an InternalError that prints the node).
#pragma once

#include <span>
#include <string_view>

#include "graph/graph.h"

namespace ridge::inline graph {

struct Rule {
  std::string_view name;
  std::string_view reason;
  // Returns an empty text if the node satisfies the rule, else a description of the violation.
  std::string (*violation)(const Graph&, NodeId);
};

// The rules about single nodes, in the order in which they are checked.
std::span<const Rule> rules();

// Throws InternalError with the rule, its reason and the node in text form.
void verify(const Graph& graph);

// Throws unless every origin in `before` is still in `after`: a rewrite may move work, but not lose
// it.
void verify_origins(const Graph& before, const Graph& after);

}  // namespace ridge::inline graph
