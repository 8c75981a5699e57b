// SPDX-License-Identifier: Apache-2.0
// What each node of a planned graph must wait for, so that nodes without a path between them may
// run side by side: those that wrote what it reads, and those that touched what it writes, buffers
// that share memory one after the other included. The schedule's order is always one that holds.
#pragma once

#include <vector>

#include "graph/graph.h"
#include "plan/places.h"
#include "plan/planner.h"

namespace ridge::plan {

// Per node the nodes before it that it must wait for, latest first, without those that another of
// them waits for. Nodes with `launches[node]` false (views, and what has nothing to do) neither
// wait nor are waited for.
std::vector<std::vector<NodeId>> dependences(const Graph& graph,
                                             const std::vector<Place>& places,
                                             const MemoryPlan& plan,
                                             const std::vector<bool>& launches);

// How nodes run where branches run side by side.
struct Schedule {
  std::vector<std::vector<NodeId>> after;  // as `dependences`
  // It updates the store, and nothing else in the graph reads what it makes
  std::vector<bool> is_background;
  std::vector<int> beside;  // nodes in a row, this one included, none of which waits for another
};
Schedule schedule_branches(const Graph& graph,
                           const std::vector<Place>& places,
                           const MemoryPlan& plan,
                           const std::vector<bool>& launches);

}  // namespace ridge::plan
