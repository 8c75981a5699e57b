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
#include "plan/rank_layout.h"

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

// The op of a collective as all of its ranks have it: a send meets a receive, and both are "".
inline std::string_view met_op(std::string_view op) {
  return op == "send" || op == "receive" ? std::string_view() : op;
}

// The same for ranks of a layout, whose stages have collectives of their own: walks through the
// lists of all ranks in order. A collective ends once all ranks of its group have come to it, a
// send once the other rank receives. Returns a sentence about the first that does not match, or
// that waits forever, or an empty string.
std::string first_mismatch(std::span<const std::string> texts, const RankLayout& layout);

}  // namespace ridge::plan
