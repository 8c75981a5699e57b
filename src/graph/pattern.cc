// SPDX-License-Identifier: Apache-2.0
// Tree matching. Two-input ops named as commutative are tried both ways.
#include "graph/pattern.h"

#include <algorithm>

#include "base/error.h"

namespace ridge {
inline namespace graph {

ValueId Match::value(std::string_view name) const {
  for (const auto& [key, value] : captures_)
    if (key == name) return value;
  RIDGE_CHECK(false, "the pattern captured no '{}'", name);
  return kNoValue;
}

const Node& Match::node(const Graph& graph, std::string_view name) const {
  const Node* producer = graph.producer(value(name));
  RIDGE_CHECK(producer != nullptr, "'{}' has no producer", name);
  return *producer;
}

bool Match::bind(const std::string& name, ValueId value) {
  if (name.empty()) return true;
  for (const auto& [key, bound] : captures_)
    if (key == name) return bound == value;
  captures_.emplace_back(name, value);
  return true;
}

Pattern Pattern::op(std::string name, std::vector<Pattern> inputs) {
  Pattern pattern;
  pattern.op_ = std::move(name);
  pattern.inputs_ = std::move(inputs);
  return pattern;
}

Pattern Pattern::any(std::string capture) {
  Pattern pattern;
  pattern.capture_ = std::move(capture);
  return pattern;
}

Pattern Pattern::as(std::string capture) && {
  capture_ = std::move(capture);
  return std::move(*this);
}

Pattern Pattern::once() && {
  once_ = true;
  return std::move(*this);
}

bool Pattern::match_value(const Graph& graph, ValueId value, const std::vector<std::vector<NodeId>>& users,
                          Match& match) const {
  if (op_.empty()) return match.bind(capture_, value);
  const Node* producer = graph.producer(value);
  if (producer == nullptr || producer->outputs[0] != value) return false;
  if (once_ && users[static_cast<size_t>(value)].size() != 1) return false;
  return match_node(graph, *producer, users, match);
}

bool Pattern::match_node(const Graph& graph, const Node& node, const std::vector<std::vector<NodeId>>& users,
                         Match& match) const {
  if (node.op->name != op_ || node.inputs.size() != inputs_.size()) return false;
  auto inputs_match = [&](bool swapped, Match& trial) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      size_t at = swapped ? inputs_.size() - 1 - i : i;
      if (!inputs_[i].match_value(graph, node.inputs[at], users, trial)) return false;
    }
    return true;
  };
  Match trial = match;
  bool commutative = node.op->name == "add" || node.op->name == "mul";
  if (!inputs_match(false, trial)) {
    trial = match;
    if (!commutative || !inputs_match(true, trial)) return false;
  }
  if (!trial.bind(capture_, node.outputs[0])) return false;
  trial.from = merge_origins(trial.from, node.from);
  match = std::move(trial);
  return true;
}

std::optional<Match> Pattern::match(const Graph& graph, const Node& root,
                                    const std::vector<std::vector<NodeId>>& users) const {
  Match match;
  if (!match_node(graph, root, users, match)) return std::nullopt;
  return match;
}

}  // namespace graph
}  // namespace ridge
