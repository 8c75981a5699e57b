// SPDX-License-Identifier: Apache-2.0
// Rewrites a graph by building a new one: a pass visits the old nodes in order, and either lets a
// node be copied or replaces its outputs. Nodes that are no longer needed are removed at the end.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/builder.h"
#include "graph/graph.h"

namespace ridge::inline graph {

class Rewriter {
 public:
  Rewriter(const Graph& old, const OpTable& ops);

  const Graph& old() const { return old_; }
  Builder& builder() { return builder_; }

  // The new graph's value for an old one, whose producer must have been copied or replaced already.
  ValueId map(ValueId old_value) const;
  std::vector<ValueId> map(std::span<const ValueId> old_values) const;
  bool is_mapped(ValueId old_value) const {
    return map_[static_cast<size_t>(old_value)] != kNoValue;
  }

  // Copies a node with its inputs mapped. A variant of the node with other attributes or inputs may
  // be passed.
  std::vector<ValueId> copy(const Node& node);
  // Maps `old_value` to `new_value` from now on. Types must be equal; retype is for passes that
  // change element types and requires only equal shapes, resize for passes that change extents.
  void replace(ValueId old_value, ValueId new_value);
  void replace_all(std::span<const ValueId> old_values, std::span<const ValueId> new_values);
  void retype(ValueId old_value, ValueId new_value);
  void resize(ValueId old_value, ValueId new_value) {
    map_[static_cast<size_t>(old_value)] = new_value;
  }
  // A parameter, input or state that the rewritten graph no longer has.
  void drop(ValueId old_value) { dropped_.push_back(map(old_value)); }

  // Visits all old nodes; `visit` returns true if it has replaced the node's outputs itself.
  // `finish` runs behind the last node, for what a pass adds after it.
  Graph run(const std::function<bool(Rewriter&, NodeId)>& visit,
            const std::function<void(Rewriter&)>& finish = {});

 private:
  const Graph& old_;
  Graph graph_;
  Builder builder_;
  std::vector<ValueId> map_;
  std::vector<ValueId> dropped_;
};

// The graph without nodes whose outputs are never read and that have no other effect. Named values
// without readers stay, unless dropped: a parameter exists whether it is read or not.
Graph without_dead_nodes(const Graph& graph, std::span<const ValueId> dropped = {});

}  // namespace ridge::inline graph
