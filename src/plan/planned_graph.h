// SPDX-License-Identifier: Apache-2.0
// A graph as the passes left it, with everything that its run on a target needs to know before it
// begins. Nothing is bound and nothing is counted: kernels are runtime/'s business, work and bytes
// cost/'s.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "plan/places.h"
#include "plan/planner.h"
#include "plan/target.h"

namespace ridge::plan {

// What the target does to run a node.
struct KernelCalls {
  int launches = 0;  // 0: a view, or a concat whose parts all lie in its output
  int rounds = 0;    // trips to memory that wait for one another (Target::rounds)
};

// How nodes run where branches run side by side.
struct Schedule {
  // Per node the nodes before it that it must wait for, latest first, without those that another
  // of them waits for.
  std::vector<std::vector<NodeId>> after;
  // It updates the store, and nothing else in the graph reads what it makes.
  std::vector<bool> is_background;
  std::vector<int> beside;  // nodes in a row, this one included, none of which waits for another
};

struct PlannedGraph {
  Graph graph;
  std::vector<Place> places;       // per value
  std::vector<KernelCalls> calls;  // per node
  MemoryPlan memory;
  std::optional<Schedule> branches;  // nothing: one kernel runs at a time
  bool replays = false;  // the run is recorded once and replayed: the host makes no launches
};

PlannedGraph plan(Graph graph, const Target& target);

// Bytes live while node i runs, by class, stored values included.
struct MemoryMoment {
  int64_t bytes[kMemoryClasses] = {};
  int64_t total() const;
};
std::vector<MemoryMoment> memory_timeline(const PlannedGraph& planned);

}  // namespace ridge::plan
