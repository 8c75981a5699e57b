// SPDX-License-Identifier: Apache-2.0
// The nodes that each node of a planned graph must wait for, so that nodes without a path between
// them may run concurrently: the writers of what it reads and the users of what it overwrites, also
// where two buffers share memory. The schedule's order always satisfies them.
#pragma once

#include <vector>

#include "plan/planned_graph.h"

namespace ridge::plan {

// The same as Schedule::after. Nodes that launch nothing are left out.
std::vector<std::vector<NodeId>> dependences(const PlannedGraph& planned);

// `planned` has its places, calls and memory.
Schedule schedule_branches(const PlannedGraph& planned);

}  // namespace ridge::plan
