// SPDX-License-Identifier: Apache-2.0
// A graph with the readers of each of its values. It keeps a reference to the graph.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace ridge::inline graph {

class Users {
 public:
  explicit Users(const Graph& graph)
      : graph_(graph), users_(graph.users()), leaves_(graph.values.size()) {
    for (ValueId value : graph.outputs) leaves_[static_cast<size_t>(value)] = true;
  }

  const Graph& graph() const { return graph_; }
  // The nodes that read the value, in schedule order.
  const std::vector<NodeId>& of(ValueId value) const { return users_[static_cast<size_t>(value)]; }
  // Whether the graph returns the value.
  bool leaves(ValueId value) const { return leaves_[static_cast<size_t>(value)]; }
  // Whether one node reads the value and nothing else does.
  bool is_read_once(ValueId value) const { return of(value).size() == 1 && !leaves(value); }

 private:
  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> leaves_;
};

}  // namespace ridge::inline graph
