// SPDX-License-Identifier: Apache-2.0
// Tree matching that keeps all alternatives: the operands of an inner node may have to be swapped
// for an outer capture to fit.
#include "graph/pattern.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::inline graph {
namespace {

void append(std::vector<Match>& all, std::vector<Match> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

bool Match::has(std::string_view name) const {
  return std::any_of(captures_.begin(), captures_.end(),
                     [&](const auto& capture) { return capture.first == name; });
}

ValueId Match::value(std::string_view name) const {
  for (const auto& [key, value] : captures_)
    if (key == name) return value;
  RIDGE_CHECK(false, "the pattern captured no '{}'", name);
  return kNoValue;
}

const Node& Match::node(std::string_view name) const {
  const Node* producer = graph().producer(value(name));
  RIDGE_CHECK(producer != nullptr, "'{}' has no producer", name);
  return *producer;
}

std::vector<ValueId> Match::values(std::initializer_list<std::string_view> names) const {
  std::vector<ValueId> found;
  for (std::string_view name : names) found.push_back(value(name));
  return found;
}

bool Match::bind(const std::string& name, ValueId value) {
  if (name.empty()) return true;
  for (const auto& [key, bound] : captures_)
    if (key == name) return bound == value;
  captures_.emplace_back(name, value);
  return true;
}

std::vector<Origin> Match::origins(size_t first) const {
  std::vector<Origin> from;
  for (size_t i = first; i < nodes_.size(); ++i)
    from = merge_origins(from, graph().node(nodes_[i]).from);
  return from;
}

Pattern node_of(const Op& op, std::vector<Pattern> inputs) {
  Pattern pattern(Pattern::Kind::kNode);
  pattern.ops_ = {&op};
  pattern.more_ = inputs.empty();
  pattern.inputs_ = std::move(inputs);
  return pattern;
}

Pattern any(std::string name) {
  Pattern pattern(Pattern::Kind::kAny);
  pattern.name_ = std::move(name);
  return pattern;
}

Pattern either(std::vector<Pattern> alternatives) {
  Pattern pattern(Pattern::Kind::kEither);
  pattern.inputs_ = std::move(alternatives);
  return pattern;
}

Pattern past(std::vector<const Op*> ops, Pattern behind) {
  Pattern pattern(Pattern::Kind::kPast);
  pattern.ops_ = std::move(ops);
  pattern.inputs_.push_back(std::move(behind));
  return pattern;
}

Pattern output_of(std::string name, size_t number) {
  Pattern pattern(Pattern::Kind::kOutputOf);
  pattern.name_ = std::move(name);
  pattern.output_ = number;
  return pattern;
}

Pattern Pattern::as(std::string name) && {
  name_ = std::move(name);
  return std::move(*this);
}

Pattern Pattern::once() && {
  once_ = true;
  return std::move(*this);
}

Pattern Pattern::output(size_t number) && {
  output_ = number;
  return std::move(*this);
}

Pattern Pattern::more() && {
  more_ = true;
  return std::move(*this);
}

Pattern Pattern::where(Condition condition) && {
  condition_ = std::move(condition);
  return std::move(*this);
}

std::vector<Match> Pattern::matches(const Users& users, NodeId root) const {
  RIDGE_CHECK(kind_ == Kind::kNode || kind_ == Kind::kEither, "the root of a pattern is a node");
  std::vector<Match> found;
  if (kind_ == Kind::kNode) found = match_node(users, root, Match(users));
  for (size_t i = 0; kind_ == Kind::kEither && i < inputs_.size(); ++i)
    append(found, inputs_[i].matches(users, root));
  const std::vector<ValueId>& outputs = users.graph().node(root).outputs;
  std::erase_if(found, [&](Match& match) { return !match.bind(name_, outputs[output_]); });
  return found;
}

std::vector<Match> Pattern::match_value(const Users& users,
                                        ValueId value,
                                        const Match& so_far) const {
  if (once_ && !users.is_read_once(value)) return {};
  std::vector<Match> found;
  switch (kind_) {
    case Kind::kAny:
      found = {so_far};
      found[0].leaves_.push_back(value);
      break;
    case Kind::kNode:
      found = match_producer(users, value, so_far);
      break;
    case Kind::kEither:
      for (const Pattern& each : inputs_) append(found, each.match_value(users, value, so_far));
      break;
    case Kind::kPast:
      found = match_past(users, value, so_far);
      break;
    case Kind::kOutputOf:
      return so_far.node(name_).outputs[output_] == value ? std::vector<Match>{so_far}
                                                          : std::vector<Match>{};
  }
  std::erase_if(found, [&](Match& match) { return !match.bind(name_, value); });
  return found;
}

std::vector<Match> Pattern::match_producer(const Users& users,
                                           ValueId value,
                                           const Match& so_far) const {
  const NodeId producer = users.graph().value(value).producer;
  if (producer == kNoNode) return {};
  const std::vector<ValueId>& outputs = users.graph().node(producer).outputs;
  bool is_meant = output_ < outputs.size() && outputs[output_] == value;
  return is_meant ? match_node(users, producer, so_far) : std::vector<Match>{};
}

std::vector<Match> Pattern::match_past(const Users& users,
                                       ValueId value,
                                       const Match& so_far) const {
  std::vector<Match> found = inputs_[0].match_value(users, value, so_far);
  const Node* producer = users.graph().producer(value);
  if (producer == nullptr || std::find(ops_.begin(), ops_.end(), producer->op) == ops_.end())
    return found;
  Match passed = so_far;
  passed.nodes_.push_back(users.graph().value(value).producer);
  append(found, match_past(users, producer->inputs[0], passed));
  return found;
}

std::vector<Match> Pattern::match_node(const Users& users, NodeId id, const Match& so_far) const {
  const Node& node = users.graph().node(id);
  bool fits = node.op == ops_[0] &&
              (more_ ? node.inputs.size() >= inputs_.size() : node.inputs.size() == inputs_.size());
  if (!fits || (condition_ && !condition_(users.graph(), node))) return {};
  Match begun = so_far;
  begun.nodes_.push_back(id);
  std::vector<Match> found = match_inputs(users, node.inputs, begun);
  if (node.op->commutative && inputs_.size() == 2)
    append(found, match_inputs(users, {node.inputs[1], node.inputs[0]}, begun));
  return found;
}

std::vector<Match> Pattern::match_inputs(const Users& users,
                                         const std::vector<ValueId>& inputs,
                                         const Match& so_far) const {
  std::vector<Match> partial{so_far};
  for (size_t i = 0; i < inputs_.size(); ++i) {
    std::vector<Match> longer;
    for (const Match& match : partial)
      append(longer, inputs_[i].match_value(users, inputs[i], match));
    partial = std::move(longer);
  }
  return partial;
}

}  // namespace ridge::inline graph
