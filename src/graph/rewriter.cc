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

namespace {

// Whether the new value has the old one's type and place. A node whose inputs do is inferred as it
// was.
bool is_same(const Value& old_value, const Value& new_value) {
  return old_value.type == new_value.type && old_value.storage == new_value.storage;
}

// Appends a node of another graph as it is, with other inputs of the same types.
std::vector<ValueId> append(Graph& graph, Node node, const std::vector<Value>& old_values) {
  for (ValueId& output : node.outputs) {
    const Value& old_value = old_values[static_cast<size_t>(output)];
    graph.values.push_back(
        {old_value.type, old_value.storage, "", static_cast<NodeId>(graph.nodes.size())});
    output = static_cast<ValueId>(graph.values.size() - 1);
  }
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().outputs;
}

// The graph with the listed nodes in that order and ids renumbered. Values without a producer stay
// unless dropped.
Graph with_nodes(Graph graph, std::span<const NodeId> order, std::span<const ValueId> dropped) {
  Graph result;
  result.origins = std::move(graph.origins);
  result.values.reserve(graph.values.size());
  result.nodes.reserve(order.size());
  std::vector<ValueId> map(graph.values.size(), kNoValue);
  auto add = [&](ValueId old, NodeId producer) {
    result.values.push_back(std::move(graph.value(old)));
    result.values.back().producer = producer;
    map[static_cast<size_t>(old)] = static_cast<ValueId>(result.values.size() - 1);
  };
  std::vector<bool> stays(graph.values.size(), true);
  for (ValueId value : dropped) stays[static_cast<size_t>(value)] = false;
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].producer == kNoNode && stays[i]) add(static_cast<ValueId>(i), kNoNode);
  for (NodeId id : order) {
    Node node = std::move(graph.node(id));
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

// The nodes whose outputs are read or that update something, in order.
std::vector<NodeId> needed_nodes(const Graph& graph) {
  std::vector<bool> live(graph.values.size(), false);
  for (ValueId output : graph.outputs) live[static_cast<size_t>(output)] = true;
  std::vector<NodeId> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    // A node with an empty result, such as a send to another rank, runs for its effect.
    bool needed = updates_store(graph, node) ||
                  (is_collective(node) && graph.shape(node.outputs[0]).elements() == 0);
    for (ValueId output : node.outputs) needed = needed || live[static_cast<size_t>(output)];
    if (!needed) continue;
    for (ValueId input : node.inputs) live[static_cast<size_t>(input)] = true;
    kept.push_back(static_cast<NodeId>(i));
  }
  std::ranges::reverse(kept);
  return kept;
}

}  // namespace

Graph Rewriter::run(const std::function<bool(Rewriter&, NodeId)>& visit,
                    const std::function<void(Rewriter&)>& finish) {
  graph_.nodes.reserve(old_.nodes.size());
  graph_.values.reserve(old_.values.size());
  for (size_t i = 0; i < old_.nodes.size(); ++i) {
    if (visit(*this, static_cast<NodeId>(i))) continue;
    const Node& node = old_.nodes[i];
    const bool is_unchanged = std::ranges::all_of(node.inputs, [&](ValueId input) {
      return is_same(old_.value(input), graph_.value(map(input)));
    });
    if (!is_unchanged || std::ssize(graph_.nodes) >= kMostNodes) {
      replace_all(node.outputs, copy(node));
      continue;
    }
    Node same = node;
    same.inputs = map(node.inputs);
    const std::vector<ValueId> outputs = append(graph_, std::move(same), old_.values);
    for (size_t o = 0; o < outputs.size(); ++o)
      map_[static_cast<size_t>(node.outputs[o])] = outputs[o];
  }
  if (finish) finish(*this);
  for (ValueId output : old_.outputs) graph_.outputs.push_back(map(output));
  const std::vector<NodeId> needed = needed_nodes(graph_);
  return with_nodes(std::move(graph_), needed, dropped_);
}

Graph without_dead_nodes(const Graph& graph, std::span<const ValueId> dropped) {
  return with_nodes(graph, needed_nodes(graph), dropped);
}

}  // namespace ridge::inline graph
