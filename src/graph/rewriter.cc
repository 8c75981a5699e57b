// SPDX-License-Identifier: Apache-2.0
// Implements rewriting by copying, and the removal of dead nodes.
#include "graph/rewriter.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::inline graph {

Rewriter::Rewriter(const Graph& old, const OpTable& ops)
    : old_(old), builder_(graph_, ops), map_(old.values.size(), kNoValue) {
  graph_.origins = old.origins;
  for (size_t i = 0; i < old.values.size(); ++i) {
    if (old.values[i].producer != kNoNode) continue;
    graph_.values.push_back(old.values[i]);
    map_[i] = static_cast<ValueId>(graph_.values.size() - 1);
  }
}

ValueId Rewriter::map(ValueId old_value) const {
  ValueId mapped = map_[static_cast<size_t>(old_value)];
  RIDGE_CHECK(mapped != kNoValue, "value %{} is read before it is rewritten", old_value);
  return mapped;
}

std::vector<ValueId> Rewriter::map(std::span<const ValueId> old_values) const {
  std::vector<ValueId> mapped;
  for (ValueId value : old_values) mapped.push_back(map(value));
  return mapped;
}

std::vector<ValueId> Rewriter::copy(const Node& node) {
  auto derive = builder_.derive(node);
  return builder_.call_all(node.op->name, map(node.inputs), node.attrs);
}

void Rewriter::replace(ValueId old_value, ValueId new_value) {
  RIDGE_CHECK(old_.type(old_value) == graph_.type(new_value), "%{} of {} replaced by {}", old_value,
              old_.type(old_value).str(), graph_.type(new_value).str());
  map_[static_cast<size_t>(old_value)] = new_value;
}

void Rewriter::replace_all(std::span<const ValueId> old_values,
                           std::span<const ValueId> new_values) {
  RIDGE_CHECK(old_values.size() == new_values.size(), "{} values replaced by {}", old_values.size(),
              new_values.size());
  for (size_t i = 0; i < old_values.size(); ++i) replace(old_values[i], new_values[i]);
}

void Rewriter::retype(ValueId old_value, ValueId new_value) {
  RIDGE_CHECK(old_.shape(old_value) == graph_.shape(new_value), "%{} of {} replaced by {}",
              old_value, old_.type(old_value).str(), graph_.type(new_value).str());
  map_[static_cast<size_t>(old_value)] = new_value;
}

Graph Rewriter::run(const std::function<bool(Rewriter&, NodeId)>& visit) {
  for (size_t i = 0; i < old_.nodes.size(); ++i) {
    if (visit(*this, static_cast<NodeId>(i))) continue;
    const Node& node = old_.nodes[i];
    std::vector<ValueId> outputs = copy(node);
    replace_all(node.outputs, outputs);
  }
  for (ValueId output : old_.outputs) graph_.outputs.push_back(map(output));
  return without_dead_nodes(graph_, dropped_);
}

namespace {

// The graph with the listed nodes in that order and ids renumbered. Values without a producer stay
// unless dropped.
Graph with_nodes(const Graph& graph,
                 std::span<const NodeId> order,
                 std::span<const ValueId> dropped) {
  Graph result;
  result.origins = graph.origins;
  std::vector<ValueId> map(graph.values.size(), kNoValue);
  auto add = [&](ValueId old, NodeId producer) {
    result.values.push_back(graph.value(old));
    result.values.back().producer = producer;
    map[static_cast<size_t>(old)] = static_cast<ValueId>(result.values.size() - 1);
  };
  std::vector<bool> stays(graph.values.size(), true);
  for (ValueId value : dropped) stays[static_cast<size_t>(value)] = false;
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].producer == kNoNode && stays[i]) add(static_cast<ValueId>(i), kNoNode);
  for (NodeId id : order) {
    Node node = graph.node(id);
    for (ValueId& input : node.inputs) {
      input = map[static_cast<size_t>(input)];
      RIDGE_CHECK(input != kNoValue, "a node of '{}' comes before its producer", node.op->name);
    }
    for (ValueId& output : node.outputs) {
      add(output, static_cast<NodeId>(result.nodes.size()));
      output = map[static_cast<size_t>(output)];
    }
    result.nodes.push_back(std::move(node));
  }
  for (ValueId output : graph.outputs) result.outputs.push_back(map[static_cast<size_t>(output)]);
  return result;
}

}  // namespace

Graph without_dead_nodes(const Graph& graph, std::span<const ValueId> dropped) {
  std::vector<bool> live(graph.values.size(), false);
  for (ValueId output : graph.outputs) live[static_cast<size_t>(output)] = true;
  std::vector<NodeId> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    bool needed = updates_store(graph, node);
    for (ValueId output : node.outputs) needed = needed || live[static_cast<size_t>(output)];
    if (!needed) continue;
    for (ValueId input : node.inputs) live[static_cast<size_t>(input)] = true;
    kept.push_back(static_cast<NodeId>(i));
  }
  std::vector<NodeId> order(kept.rbegin(), kept.rend());
  return with_nodes(graph, order, dropped);
}

}  // namespace ridge::inline graph
