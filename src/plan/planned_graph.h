// SPDX-License-Identifier: Apache-2.0
// A graph after all passes, with everything that is known before it runs on a target. Nothing is
// bound or counted yet: runtime/ binds kernels, cost/ counts work and bytes.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"
#include "plan/places.h"
#include "plan/planner.h"
#include "plan/target.h"

namespace ridge::plan {

// The kernel calls that run a node.
struct KernelCalls {
  int launches = 0;            // 0 for a view, or for a concat whose parts all lie in its output
  int rounds = 0;              // dependent memory round trips (Target::rounds)
  bool calls_library = false;  // one of them is a library's
  std::optional<int64_t> shared_bytes = {};  // Target::shared_bytes
};

// The schedule of a graph whose branches run concurrently.
struct Schedule {
  // Per node, the earlier nodes that it must wait for, latest first, without those that another of
  // them already waits for.
  std::vector<std::vector<NodeId>> after;
  // Per node: whether it updates the store and no other node reads its result.
  std::vector<bool> is_background;
  // Per node: the number of consecutive nodes, including this one, that do not wait for one
  // another.
  std::vector<int> concurrent;
};

struct PlannedGraph {
  Graph graph;
  std::vector<Place> places;       // per value
  std::vector<KernelCalls> calls;  // per node
  MemoryPlan memory;
  std::optional<Schedule> branches;  // empty: one kernel runs at a time
  // Whether the run is recorded once and replayed, so that the host makes no launches.
  bool replays = false;
};

PlannedGraph plan(Graph graph, const Target& target);

// Bytes live while node i runs, by class, stored values included.
struct MemoryMoment {
  int64_t bytes[kMemoryClasses] = {};
  int64_t total() const;
};
std::vector<MemoryMoment> memory_timeline(const PlannedGraph& planned);

}  // namespace ridge::plan
