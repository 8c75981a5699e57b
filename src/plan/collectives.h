// SPDX-License-Identifier: Apache-2.0
// The collectives of a rank's graphs in the order in which they run, and whether those of all ranks
// match: a rank that exchanges something else, or in another order, would make the others wait
// forever.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace ridge::plan {

// One collective of a graph.
struct Collective {
  std::string graph;  // the program's name of it
  NodeId node = kNoNode;
  std::string op, scope, phase, group;
  int64_t ranks = 1;
  std::vector<Type> tensors;
  int64_t sent_bytes = 0;
};

// Appends those of a graph.
void append_collectives(const std::string& name,
                        const Graph& graph,
                        std::vector<Collective>& collectives);

// A line for each collective, with all that must be equal on every rank.
std::string collectives_text(std::span<const Collective> collectives);

// Compares the texts of the ranks. Returns a sentence about the first collective in which a rank
// differs from the first rank, or an empty string.
std::string first_mismatch(std::span<const std::string> texts);

}  // namespace ridge::plan
