// SPDX-License-Identifier: Apache-2.0
// The cost of a graph: exact counts of arithmetic and bytes per node, and their sums.
// docs/accounting.md has the conventions; cost/predict.h predicts times.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "graph/graph.h"
#include "plan/planned_graph.h"

namespace ridge::cost {

struct NodeCost {
  Work work;               // executed by the kernel
  int64_t read_bytes = 0;  // planned: each operand once, gathers only the rows they touch
  int64_t written_bytes = 0;
  int64_t sent_bytes = 0;  // to other ranks
  int launches = 0;
  int rounds = 0;              // dependent round trips to memory
  bool calls_library = false;  // one of the launches is a library's

  int64_t bytes() const { return checked_sum(read_bytes, written_bytes, "bytes"); }
  NodeCost& operator+=(const NodeCost& other);  // throws an out-of-memory Error above 63 bits
};

std::vector<NodeCost> node_costs(const plan::PlannedGraph& planned);  // one per node
NodeCost total(const std::vector<NodeCost>& costs);

// Work of the model: the sum over the graph's distinct origins, which no pass changes.
struct ModelTotals {
  Work forward;
  Work backward;
  Work optimizer;
  // The work that MFU counts; the optimizer is not part of the model.
  Work step() const { return forward + backward; }
};
ModelTotals model_totals(const Graph& graph);

// Bytes of the scope's inputs and outputs, each once, as if the whole scope were one fused kernel.
// A stored value that is read or updated by rows counts at most the bytes that its node touches. An
// empty scope means the whole graph.
int64_t compulsory_bytes(const plan::PlannedGraph& planned, std::string_view scope);
// Bytes of the parameters that the graph must read, each once, as stored; in all and by their type.
int64_t parameter_bytes(const plan::PlannedGraph& planned);
std::map<DType, int64_t> parameter_bytes_by_type(const plan::PlannedGraph& planned);

}  // namespace ridge::cost
