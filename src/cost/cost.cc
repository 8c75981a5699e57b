// SPDX-License-Identifier: Apache-2.0
// Counts the arithmetic and the bytes of nodes.
#include "cost/cost.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"

namespace ridge::cost {
namespace {

int64_t operand_bytes(const plan::PlannedGraph& planned, ValueId value) {
  const Type& type = planned.graph.type(value);
  // Blocks lie along a dense last axis, so values of a block type are never broadcast.
  int64_t elements = is_block(type.dtype)
                         ? type.shape.elements()
                         : plan::distinct_elements(type.shape, at(planned.places, value).layout);
  return storage_bytes(type.dtype, elements);
}

// Parts that already lie in the output are neither read nor written by the op that joins them.
void count_unplaced_parts(const plan::PlannedGraph& planned, const Node& node, NodeCost& cost) {
  const Graph& graph = planned.graph;
  for (ValueId part : node.inputs) {
    if (at(planned.places, part).root == at(planned.places, node.outputs[0]).root) continue;
    cost.read_bytes += operand_bytes(planned, part);
    cost.written_bytes += storage_bytes(graph.type(part).dtype, graph.shape(part).elements());
  }
}

void count_operands(const plan::PlannedGraph& planned, const Node& node, NodeCost& cost) {
  std::set<ValueId> seen;
  for (ValueId input : node.inputs)
    if (seen.insert(input).second) cost.read_bytes += operand_bytes(planned, input);
  for (ValueId output : node.outputs) cost.written_bytes += operand_bytes(planned, output);
}

NodeCost node_cost(const plan::PlannedGraph& planned, size_t i) {
  NodeCost cost;
  const Node& node = planned.graph.nodes[i];
  if (node.op->kind == OpKind::kView) return cost;
  CallTypes types(planned.graph, node);
  if (node.op->work != nullptr) cost.work = node.op->work(types.call());
  auto traffic = node.op->traffic == nullptr ? std::nullopt : node.op->traffic(types.call());
  if (traffic) {
    for (int64_t bytes : traffic->read_bytes)
      cost.read_bytes = checked_sum(cost.read_bytes, bytes, "bytes read");
    for (int64_t bytes : traffic->written_bytes)
      cost.written_bytes = checked_sum(cost.written_bytes, bytes, "bytes written");
  } else if (node.op->joins) {
    count_unplaced_parts(planned, node, cost);
  } else {
    count_operands(planned, node, cost);
  }
  if (node.op->sent_bytes != nullptr) cost.sent_bytes = node.op->sent_bytes(types.call());
  cost.launches = planned.calls[i].launches;
  cost.rounds = planned.calls[i].rounds;
  cost.calls_library = planned.calls[i].calls_library;
  return cost;
}

bool in_scope(const Node& node, std::string_view scope) {
  return scope.empty() || (node.scope.starts_with(scope) &&
                           (node.scope.size() == scope.size() || node.scope[scope.size()] == '/'));
}

constexpr int64_t kWhole = std::numeric_limits<int64_t>::max();

bool is_stored(const Graph& graph, ValueId root) {
  return graph.value(root).storage != Storage::kTemporary;
}

std::optional<Traffic> traffic_of(const Graph& graph, const Node& node) {
  return node.op->traffic == nullptr ? std::nullopt
                                     : node.op->traffic(CallTypes(graph, node).call());
}

// The bytes of a value that a node touches: all of a temporary, at most `most` of a stored value.
int64_t touched_bytes(const Graph& graph, ValueId root, int64_t most) {
  int64_t whole = storage_bytes(graph.type(root).dtype, graph.shape(root).elements());
  return is_stored(graph, root) ? std::min(whole, most) : whole;
}

void raise(int64_t& bytes, int64_t to) { bytes = std::max(bytes, to); }

}  // namespace

NodeCost& NodeCost::operator+=(const NodeCost& other) {
  work += other.work;
  read_bytes = checked_sum(read_bytes, other.read_bytes, "bytes read");
  written_bytes = checked_sum(written_bytes, other.written_bytes, "bytes written");
  sent_bytes = checked_sum(sent_bytes, other.sent_bytes, "bytes sent");
  launches += other.launches;
  rounds += other.rounds;
  return *this;
}

std::vector<NodeCost> node_costs(const plan::PlannedGraph& planned) {
  std::vector<NodeCost> costs;
  for (size_t i = 0; i < planned.graph.nodes.size(); ++i) costs.push_back(node_cost(planned, i));
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
    if (origin.phase == Phase::kOptimizer)
      totals.optimizer += record.work.forward;
    else if (origin.phase == Phase::kBackward)
      totals.backward += record.work.backward;
    else if (origin.phase == Phase::kForward)
      totals.forward += record.work.forward;
  }
  return totals;
}

int64_t compulsory_bytes(const plan::PlannedGraph& planned, std::string_view scope) {
  const Graph& graph = planned.graph;
  const std::vector<plan::Place>& places = planned.places;
  std::set<ValueId> made, kept;
  std::map<ValueId, int64_t> read, written;  // bytes by root
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::kView) continue;  // its reader counts the bytes
    bool inside = in_scope(node, scope);
    auto traffic = traffic_of(graph, node);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      ValueId root = at(places, node.outputs[i]).root;
      if (inside) made.insert(root);
      if (inside)
        raise(written[root],
              touched_bytes(graph, root, traffic ? traffic->written_bytes[i] : kWhole));
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId root = at(places, node.inputs[i]).root;
      if (inside)
        raise(read[root], touched_bytes(graph, root, traffic ? traffic->read_bytes[i] : kWhole));
      else
        kept.insert(root);
    }
  }
  for (ValueId output : graph.outputs) kept.insert(at(places, output).root);
  int64_t sum = 0;
  for (const auto& [root, bytes] : read)
    if (!made.contains(root) || is_stored(graph, root)) sum += bytes;
  for (const auto& [root, bytes] : written)
    if (kept.contains(root) || is_stored(graph, root)) sum += bytes;
  return sum;
}

std::map<DType, int64_t> parameter_bytes_by_type(const plan::PlannedGraph& planned) {
  const Graph& graph = planned.graph;
  std::map<ValueId, int64_t> read;
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::kView) continue;
    auto traffic = traffic_of(graph, node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId root = at(planned.places, node.inputs[i]).root;
      if (graph.value(root).storage == Storage::kParameter)
        raise(read[root], touched_bytes(graph, root, traffic ? traffic->read_bytes[i] : kWhole));
    }
  }
  std::map<DType, int64_t> sums;
  for (const auto& [root, bytes] : read) sums[graph.type(root).dtype] += bytes;
  return sums;
}

int64_t parameter_bytes(const plan::PlannedGraph& planned) {
  int64_t sum = 0;
  for (const auto& [dtype, bytes] : parameter_bytes_by_type(planned)) sum += bytes;
  return sum;
}

}  // namespace ridge::cost
