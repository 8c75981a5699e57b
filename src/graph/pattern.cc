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

std::vector<Match> Pattern::match_value(const Graph& graph,
                                        ValueId value,
                                        const Users& users,
                                        const Match& so_far) const {
  if (op_.empty()) {
    Match match = so_far;
    if (!match.bind(capture_, value)) return {};
    return {std::move(match)};
  }
  const Node* producer = graph.producer(value);
  if (producer == nullptr || producer->outputs[0] != value) return {};
  if (once_ && users[static_cast<size_t>(value)].size() != 1) return {};
  return match_node(graph, *producer, users, so_far);
}

std::vector<Match> Pattern::match_node(const Graph& graph,
                                       const Node& node,
                                       const Users& users,
                                       const Match& so_far) const {
  if (node.op->name != op_ || node.inputs.size() != inputs_.size()) return {};
  std::vector<Match> found;
  auto add_matches = [&](bool swapped) {
    std::vector<Match> partial{so_far};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      std::vector<Match> longer;
      for (const Match& match : partial)
        for (Match& each : inputs_[i].match_value(
                 graph, node.inputs[swapped ? inputs_.size() - 1 - i : i], users, match))
          longer.push_back(std::move(each));
      partial = std::move(longer);
    }
    for (Match& match : partial) {
      if (!match.bind(capture_, node.outputs[0])) continue;
      match.from = merge_origins(match.from, node.from);
      found.push_back(std::move(match));
    }
  };
  add_matches(false);
  if (node.op->commutative) add_matches(true);
  return found;
}

std::optional<Match> Pattern::match(const Graph& graph,
                                    const Node& root,
                                    const std::vector<std::vector<NodeId>>& users) const {
  std::vector<Match> found = match_node(graph, root, users, Match());
  if (found.empty()) return std::nullopt;
  return std::move(found[0]);
}

}  // namespace graph
}  // namespace ridge
