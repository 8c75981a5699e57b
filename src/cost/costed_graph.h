// SPDX-License-Identifier: Apache-2.0
// A planned graph with the counts of its nodes. Running, measuring, predicting and reporting all
// use it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cost/cost.h"
#include "plan/planned_graph.h"

namespace ridge::cost {

struct CostedGraph : plan::PlannedGraph {
  std::vector<NodeCost> costs;  // per node
};

CostedGraph count(plan::PlannedGraph planned);

// One graph of a program; the program runs it `repeat` times in a row.
struct ProgramGraph {
  std::string name;
  int64_t repeat = 1;
  std::shared_ptr<const CostedGraph> costed;

  const Graph& graph() const { return costed->graph; }
};

// Plans a graph for a target after all passes, and counts it.
ProgramGraph program_graph(std::string name,
                           Graph graph,
                           int64_t repeat,
                           const plan::Target& target);

}  // namespace ridge::cost
