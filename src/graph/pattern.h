// SPDX-License-Identifier: Apache-2.0
// Patterns over the graph for local fusions: a tree of ops that ends in captured values.
//
//   Pattern p = Pattern::op("rms_norm", {Pattern::op("add", {any("x"), any("r")}).as("sum"),
//   any("weight")}); if (auto match = p.match(graph, node)) ... match->value("x")
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"

namespace ridge {
inline namespace graph {

class Match {
 public:
  ValueId value(std::string_view name) const;
  const Node& node(const Graph& graph,
                   std::string_view name) const;  // the producer of a captured value
  // Origins of all nodes that the pattern named.
  std::vector<Origin> from;

 private:
  friend class Pattern;
  bool bind(const std::string& name, ValueId value);  // false when the name holds another value
  std::vector<std::pair<std::string, ValueId>> captures_;
};

class Pattern {
 public:
  static Pattern op(std::string name, std::vector<Pattern> inputs);
  static Pattern any(std::string capture);  // any value; the same name twice must be the same value
  Pattern as(std::string capture) &&;       // captures the first output of an op pattern
  Pattern once() &&;                        // the value must have no other reader

  // Matches a node as the root of the pattern. `users` = graph.users(), for once().
  std::optional<Match> match(const Graph& graph,
                             const Node& root,
                             const std::vector<std::vector<NodeId>>& users) const;

 private:
  // All ways to extend a match: an inner operand may have to be taken the other way round for an
  // outer capture to fit.
  using Users = std::vector<std::vector<NodeId>>;
  std::vector<Match> match_value(const Graph& graph,
                                 ValueId value,
                                 const Users& users,
                                 const Match& so_far) const;
  std::vector<Match> match_node(const Graph& graph,
                                const Node& node,
                                const Users& users,
                                const Match& so_far) const;

  std::string op_;
  std::string capture_;
  bool once_ = false;
  std::vector<Pattern> inputs_;
};

inline Pattern any(std::string capture) { return Pattern::any(std::move(capture)); }

}  // namespace graph
}  // namespace ridge
