// SPDX-License-Identifier: Apache-2.0
// Computes, for each node of a planned graph, the nodes that it must wait for: the writers of the
// values it reads and the users of the bytes it overwrites, including buffers that share memory.
// Nodes without a path between them may run concurrently. The schedule's order always satisfies
// these dependences.
#pragma once

#include <vector>

#include "plan/planned_graph.h"

namespace ridge::plan {

// Returns Schedule::after. Nodes without launches are left out.
std::vector<std::vector<NodeId>> dependences(const PlannedGraph& planned);

// `planned` must have its places, calls and memory.
// With `chains_kernels`, all nodes but collectives and those in the background run one after
// another (BranchSlack::chains_kernels).
Schedule schedule_branches(const PlannedGraph& planned, bool chains_kernels = false);

}  // namespace ridge::plan
