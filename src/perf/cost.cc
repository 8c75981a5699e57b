// SPDX-License-Identifier: Apache-2.0
// Counting.
#include "perf/cost.h"

#include <set>

#include "base/error.h"

namespace ridge::perf {
namespace {

int64_t operand_bytes(const Graph& graph, const std::vector<Place>& places, ValueId value) {
  const Type& type = graph.type(value);
  // Blocks lie along a dense last axis; a broadcast of a block type does not exist.
  int64_t elements = is_block(type.dtype) ? type.shape.elements() : distinct_elements(type.shape, at(places, value).layout);
  return storage_bytes(type.dtype, elements);
}

// Parts already lying in the output are neither read nor written by the concat.
void count_concat(const Graph& graph, const Node& node, const std::vector<Place>& places, NodeCost& cost) {
  for (ValueId part : node.inputs) {
    if (at(places, part).root == at(places, node.outputs[0]).root) continue;
    cost.read_bytes += operand_bytes(graph, places, part);
    cost.written_bytes += storage_bytes(graph.type(part).dtype, graph.shape(part).elements());
  }
}

void count_operands(const Graph& graph, const Node& node, const std::vector<Place>& places, NodeCost& cost) {
  std::set<ValueId> seen;
  for (ValueId input : node.inputs)
    if (seen.insert(input).second) cost.read_bytes += operand_bytes(graph, places, input);
  for (ValueId output : node.outputs) cost.written_bytes += operand_bytes(graph, places, output);
}

NodeCost node_cost(const Graph& graph, const Node& node, const std::vector<Place>& places, const Target* target) {
  NodeCost cost;
  if (node.op->kind == OpKind::kView) return cost;
  CallTypes types(graph, node);
  if (node.op->work != nullptr) cost.work = node.op->work(types.call());
  auto traffic = node.op->traffic == nullptr ? std::nullopt : node.op->traffic(types.call());
  if (traffic) {
    cost.read_bytes = traffic->read_bytes;
    cost.written_bytes = traffic->written_bytes;
  } else if (node.op->name == "concat") {
    count_concat(graph, node, places, cost);
  } else {
    count_operands(graph, node, places, cost);
  }
  bool free = node.op->name == "concat" && cost.bytes() == 0;
  cost.launches = free ? 0 : target == nullptr ? 1 : target->launches(graph, node);
  return cost;
}

bool in_scope(const Node& node, std::string_view scope) {
  return scope.empty() || (node.scope.starts_with(scope) &&
                           (node.scope.size() == scope.size() || node.scope[scope.size()] == '/'));
}

}  // namespace

NodeCost& NodeCost::operator+=(const NodeCost& other) {
  work += other.work;
  read_bytes += other.read_bytes;
  written_bytes += other.written_bytes;
  launches += other.launches;
  return *this;
}

std::vector<NodeCost> node_costs(const Graph& graph, const std::vector<Place>& places, const Target* target) {
  std::vector<NodeCost> costs;
  costs.reserve(graph.nodes.size());
  for (const Node& node : graph.nodes) costs.push_back(node_cost(graph, node, places, target));
  return costs;
}

NodeCost total(const std::vector<NodeCost>& costs) {
  NodeCost sum;
  for (const NodeCost& cost : costs) sum += cost;
  return sum;
}

ModelTotals model_totals(const Graph& graph) {
  ModelTotals totals;
  for (const Origin& origin : distinct_origins(graph)) {
    const OriginRecord& record = graph.origins[static_cast<size_t>(origin.id)];
    if (origin.phase == Phase::kOptimizer) totals.optimizer += record.work.forward;
    else if (origin.phase == Phase::kBackward) totals.backward += record.work.backward;
    else if (origin.phase == Phase::kForward) totals.forward += record.work.forward;
  }
  return totals;
}

int64_t compulsory_bytes(const Graph& graph, const std::vector<Place>& places, std::string_view scope) {
  std::set<ValueId> made, read, kept;
  for (const Node& node : graph.nodes) {
    bool inside = in_scope(node, scope);
    for (ValueId output : node.outputs)
      if (inside) made.insert(at(places, output).root);
    for (ValueId input : node.inputs) {
      ValueId root = at(places, input).root;
      if (inside) read.insert(root);
      else kept.insert(root);
    }
  }
  for (ValueId output : graph.outputs) kept.insert(at(places, output).root);
  auto bytes = [&](ValueId root) { return storage_bytes(graph.type(root).dtype, graph.shape(root).elements()); };
  auto stored = [&](ValueId root) { return graph.value(root).storage != Storage::kTemporary; };
  int64_t sum = 0;
  for (ValueId root : read)
    if (!made.contains(root) || stored(root)) sum += bytes(root);
  for (ValueId root : made)
    if (kept.contains(root) || stored(root)) sum += bytes(root);
  return sum;
}

}  // namespace ridge::perf
