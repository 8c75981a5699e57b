// SPDX-License-Identifier: Apache-2.0
// Plans and counts a graph in one step.
#include "cost/costed_graph.h"

namespace ridge::cost {

CostedGraph count(plan::PlannedGraph planned) {
  std::vector<NodeCost> costs = node_costs(planned);
  return {std::move(planned), std::move(costs)};
}

ProgramGraph program_graph(std::string name,
                           Graph graph,
                           int64_t repeat,
                           const plan::Target& target) {
  return {std::move(name), repeat,
          std::make_shared<const CostedGraph>(count(plan::plan(std::move(graph), target)))};
}

}  // namespace ridge::cost
