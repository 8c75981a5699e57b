// SPDX-License-Identifier: Apache-2.0
// The graph: values and nodes in SSA form. The order of the node list is the schedule. Kernels and
// devices are not part of it.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attrs.h"
#include "graph/op.h"

namespace ridge::inline graph {

// Says where the bytes of a value are stored, and for how long.
enum class Storage : uint8_t {
  kParameter,  // in the store, by name, shared by the graphs of a program
  kInput,      // written by the host before a run
  kState,      // in the store: optimizer moments, gradient accumulators, KV caches
  kTemporary,  // in the arena, within one run
};
enum class Phase : uint8_t { kLoad, kForward, kBackward, kOptimizer };
std::string_view name(Storage storage);
std::string_view name(Phase phase);

struct Value {
  Type type;
  Storage storage = Storage::kTemporary;
  std::string name;           // parameters, inputs and states have one; temporaries have none
  NodeId producer = kNoNode;  // index into nodes, kNoNode for parameters, inputs, states
  bool frozen = false;        // a parameter that training leaves as it is
};

// Work that a model built: the index of its record in Graph::origins, and the phase of the work.
struct Origin {
  int32_t id = 0;
  Phase phase = Phase::kForward;
  auto operator<=>(const Origin&) const = default;
};

struct Node {
  const Op* op = nullptr;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
  std::string scope;  // "layer.3/attention"
  Phase phase = Phase::kForward;
  std::vector<Origin> from;  // sorted, distinct
};

// A node as the model built it. Model FLOPs are sums over these records.
struct OriginRecord {
  std::string op;
  std::string scope;
  Phase phase = Phase::kForward;
  ModelWork work;
};

class Graph {
 public:
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<OriginRecord> origins;
  std::vector<ValueId> outputs;  // kept alive, as are state updates

  const Type& type(ValueId value) const { return values[static_cast<size_t>(value)].type; }
  const Shape& shape(ValueId value) const { return type(value).shape; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Node& node(NodeId id) { return nodes[static_cast<size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes[static_cast<size_t>(id)]; }
  const Node* producer(ValueId id) const;
  ValueId find(std::string_view name) const;  // a named value, or kNoValue

  // The nodes that read each value, in schedule order.
  std::vector<std::vector<NodeId>> users() const;
};

// Whether the node exists and is of this op.
inline bool is_a(const Node* node, const Op& op) { return node != nullptr && node->op == &op; }
inline bool is_a(const Node& node, const Op& op) { return node.op == &op; }

// The first node of an op, or null.
const Node* first_of(const Graph& graph, const Op& op);

// Whether the ranks of a group run the node together.
inline bool is_collective(const Node& node) { return node.op->category == OpCategory::kCollective; }

// Owned copies of a node's types, so that a Call can be made.
struct CallTypes {
  CallTypes(const Graph& graph, const Node& node);
  Call call() const { return {inputs, outputs, *attrs}; }
  std::vector<Type> inputs;
  std::vector<Type> outputs;
  const Attrs* attrs;
};

// Whether the node must run even if nothing reads its outputs, because it updates a parameter or
// state.
bool updates_store(const Graph& graph, const Node& node);
std::vector<Alias> aliases(const Graph& graph, const Node& node);

// Sorted union of two origin sets.
std::vector<Origin> merge_origins(std::span<const Origin> a, std::span<const Origin> b);
// The distinct origins over all nodes.
std::vector<Origin> distinct_origins(const Graph& graph);

}  // namespace ridge::inline graph
