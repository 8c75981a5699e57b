// SPDX-License-Identifier: Apache-2.0
// What each node of a planned graph must wait for, so that nodes without a path between them may
// run side by side: those that wrote what it reads, and those that touched what it writes, buffers
// that share memory one after the other included. The schedule's order is always one that holds.
#pragma once

#include <vector>

#include "plan/planned_graph.h"

namespace ridge::plan {

// As Schedule::after. Nodes that launch nothing neither wait nor are waited for.
std::vector<std::vector<NodeId>> dependences(const PlannedGraph& planned);

// `planned` has its places, calls and memory.
Schedule schedule_branches(const PlannedGraph& planned);

}  // namespace ridge::plan
