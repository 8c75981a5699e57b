// SPDX-License-Identifier: Apache-2.0
// Patterns over the graph for local rewrites: a tree of ops that ends in captured values.
//
//   Pattern normed_sum = node_of(ops::rms_norm_op(), {node_of(add, {any("x"), any("y")}).as("sum"),
//                                                     any("weight")});
//   for (const Match& match : normed_sum.matches(users, id)) ... match.value("x")
//
// A pattern matches a value; its root matches a node. If a name is used twice, both captures must
// be the same value.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/users.h"

namespace ridge::inline graph {

class Match {
 public:
  explicit Match(const Users& users) : users_(&users) {}

  bool has(std::string_view name) const;
  ValueId value(std::string_view name) const;
  const Node& node(std::string_view name) const;  // the producer of a captured value
  std::vector<ValueId> values(std::initializer_list<std::string_view> names) const;

  const Graph& graph() const { return users_->graph(); }
  const Node& root() const { return graph().node(nodes_[0]); }
  const std::vector<NodeId>& readers(std::string_view name) const {
    return users_->of(value(name));
  }
  const std::vector<NodeId>& nodes() const { return nodes_; }     // matched by the pattern's nodes
  const std::vector<ValueId>& leaves() const { return leaves_; }  // matched by any()
  // The origins of all matched nodes, and of all but the root.
  std::vector<Origin> from() const { return origins(0); }
  std::vector<Origin> from_behind() const { return origins(1); }

 private:
  friend class Pattern;
  bool bind(const std::string& name, ValueId value);  // false if the name holds another value
  std::vector<Origin> origins(size_t first) const;

  const Users* users_;
  std::vector<NodeId> nodes_;  // the root first
  std::vector<ValueId> leaves_;
  std::vector<std::pair<std::string, ValueId>> captures_;
};

class Pattern {
 public:
  Pattern as(std::string name) &&;   // captures the value
  Pattern once() &&;                 // only one node may read the value
  Pattern output(size_t number) &&;  // which output of a node with several; 0 by default
  Pattern more() &&;                 // further operands may follow the listed ones
  // Conditions beyond the tree: attributes, types.
  using Condition = std::function<bool(const Graph&, const Node&)>;
  Pattern where(Condition condition) &&;

  // All matches with the node as the root of the pattern, preferred ones first: alternatives in
  // their order, operands in the given order before swapped ones.
  std::vector<Match> matches(const Users& users, NodeId root) const;

 private:
  enum class Kind : uint8_t { kAny, kNode, kEither, kPast, kOutputOf };
  friend Pattern node_of(const Op& op, std::vector<Pattern> inputs);
  friend Pattern any(std::string name);
  friend Pattern either(std::vector<Pattern> alternatives);
  friend Pattern past(std::vector<const Op*> ops, Pattern behind);
  friend Pattern output_of(std::string name, size_t number);
  explicit Pattern(Kind kind) : kind_(kind) {}

  std::vector<Match> match_value(const Users& users, ValueId value, const Match& so_far) const;
  std::vector<Match> match_producer(const Users& users, ValueId value, const Match& so_far) const;
  std::vector<Match> match_past(const Users& users, ValueId value, const Match& so_far) const;
  std::vector<Match> match_node(const Users& users, NodeId id, const Match& so_far) const;
  std::vector<Match> match_inputs(const Users& users,
                                  const std::vector<ValueId>& inputs,
                                  const Match& so_far) const;

  Kind kind_;
  std::vector<const Op*> ops_;
  std::vector<Pattern> inputs_;  // operands, alternatives, or the pattern behind
  std::string name_;             // it names the capture, or the one that output_of refers to
  size_t output_ = 0;
  bool once_ = false;
  bool more_ = false;
  Condition condition_;
};

// A node of the op with these operands; if none are given, with any operands.
Pattern node_of(const Op& op, std::vector<Pattern> inputs = {});
// Any value.
Pattern any(std::string name);
// Any of the alternatives; the first one is preferred.
Pattern either(std::vector<Pattern> alternatives);
// Matches `behind` through any number of nodes of these ops (or none), by their first operands.
Pattern past(std::vector<const Op*> ops, Pattern behind);
// Another output of the node that produced the value captured as `name`, to the left of this
// pattern.
Pattern output_of(std::string name, size_t number);

}  // namespace ridge::inline graph
