// SPDX-License-Identifier: Apache-2.0
// The cost of a graph: exact counts of arithmetic and bytes per node, and their sums. The
// conventions are in docs/accounting.md; times are cost/predict.h's business.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "graph/graph.h"
#include "plan/planned_graph.h"

namespace ridge::cost {

struct NodeCost {
  Work work;               // executed: what the kernel does
  int64_t read_bytes = 0;  // planned: each operand once, gathers by rows touched
  int64_t written_bytes = 0;
  int launches = 0;
  int rounds = 0;  // trips to memory that wait for one another

  int64_t bytes() const { return checked_sum(read_bytes, written_bytes, "bytes"); }
  NodeCost& operator+=(const NodeCost& other);  // an out-of-memory Error over 63 bits
};

std::vector<NodeCost> node_costs(const plan::PlannedGraph& planned);  // one per node
NodeCost total(const std::vector<NodeCost>& costs);

// The sum over the graph's distinct origins: the same under every pass.
struct ModelTotals {
  Work forward;
  Work backward;
  Work optimizer;
  Work step() const {
    return forward + backward;
  }  // what MFU counts: the optimizer is not the model's
};
ModelTotals model_totals(const Graph& graph);

// Bytes of the scope's inputs and outputs once, as if everything in it were fused. Of stored values
// that are looked up or updated by rows, at most what the node that does it touches. An empty scope
// is the graph.
int64_t compulsory_bytes(const plan::PlannedGraph& planned, std::string_view scope);
// What the graph must read of its parameters, each once, as they are stored.
int64_t parameter_bytes(const plan::PlannedGraph& planned);

}  // namespace ridge::cost
