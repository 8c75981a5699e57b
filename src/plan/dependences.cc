// SPDX-License-Identifier: Apache-2.0
// Finds conflicts of byte ranges, from the latest earlier node backwards, and skips nodes that an
// already found dependence waits for.
#include "plan/dependences.h"

#include <algorithm>
#include <cstdint>

#include "plan/addresses.h"

namespace ridge::plan {
namespace {

using Accesses = std::vector<Access>;

// A workspace counts as a write, so two nodes that share one cannot run concurrently.
Accesses accesses_of(NodeId id, const PlannedGraph& planned, const Addresses& addresses) {
  Accesses all;
  const Node& node = planned.graph.node(id);
  for (ValueId input : node.inputs) all.push_back(addresses.access(input, false));
  for (ValueId output : node.outputs) all.push_back(addresses.access(output, true));
  // Collectives run in the same order on every rank, whatever they exchange.
  if (is_collective(node)) all.push_back({-2, -1, 1, true});
  int workspace = planned.memory.workspace_of[static_cast<size_t>(id)];
  if (workspace >= 0) {
    const Buffer& buffer = planned.memory.buffers[static_cast<size_t>(workspace)];
    all.push_back({buffer.offset, buffer.offset + buffer.bytes, buffer.bytes, true});
  }
  return all;
}

bool conflict(const Accesses& a, const Accesses& b) {
  return std::any_of(a.begin(), a.end(), [&](const Access& x) {
    return std::any_of(b.begin(), b.end(), [&](const Access& y) {
      return (x.is_write || y.is_write) && x.begin < y.end && y.begin < x.end;
    });
  });
}

// For each node, a bit set of the nodes that it waits for, directly or indirectly.
class Ancestors {
 public:
  explicit Ancestors(size_t nodes) : words_((nodes + 63) / 64), bits_(nodes * words_) {}
  bool has(NodeId node, NodeId ancestor) const {
    size_t bit = static_cast<size_t>(ancestor);
    return (bits_[row(node) + bit / 64] >> (bit % 64) & 1) != 0;
  }
  void add(NodeId node, NodeId ancestor) {
    size_t bit = static_cast<size_t>(ancestor), to = row(node), from = row(ancestor);
    for (size_t i = 0; i < words_; ++i) bits_[to + i] |= bits_[from + i];
    bits_[to + bit / 64] |= uint64_t{1} << (bit % 64);
  }

 private:
  size_t row(NodeId node) const { return static_cast<size_t>(node) * words_; }
  size_t words_;
  std::vector<uint64_t> bits_;
};

// Returns Schedule::after and fills `ancestors`. The nodes of `chain` wait for each other.
std::vector<std::vector<NodeId>> find_dependences(const PlannedGraph& planned,
                                                  Ancestors& ancestors,
                                                  const std::vector<bool>& chain = {}) {
  const Graph& graph = planned.graph;
  Addresses addresses(planned);
  std::vector<Accesses> touched(graph.nodes.size());
  std::vector<std::vector<NodeId>> after(graph.nodes.size());
  NodeId last_of_chain = kNoNode;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (planned.calls[i].launches == 0) continue;
    NodeId node = static_cast<NodeId>(i);
    if (!chain.empty() && chain[i]) {
      if (last_of_chain != kNoNode) {
        after[i].push_back(last_of_chain);
        ancestors.add(node, last_of_chain);
      }
      last_of_chain = node;
    }
    touched[i] = accesses_of(node, planned, addresses);
    for (NodeId before = node - 1; before >= 0; --before) {
      const Accesses& theirs = touched[static_cast<size_t>(before)];
      if (theirs.empty() || ancestors.has(node, before) || !conflict(touched[i], theirs)) continue;
      after[i].push_back(before);
      ancestors.add(node, before);
    }
  }
  return after;
}

}  // namespace

std::vector<std::vector<NodeId>> dependences(const PlannedGraph& planned) {
  Ancestors ancestors(planned.graph.nodes.size());
  return find_dependences(planned, ancestors);
}

Schedule schedule_branches(const PlannedGraph& planned, bool chains_kernels) {
  const Graph& graph = planned.graph;
  const size_t nodes = graph.nodes.size();
  std::vector<std::vector<NodeId>> users = graph.users();
  std::vector<bool> is_background(nodes, false), chain(chains_kernels ? nodes : 0, false);
  for (size_t i = 0; i < nodes; ++i) {
    const std::vector<ValueId>& outputs = graph.nodes[i].outputs;
    const bool is_read = std::any_of(outputs.begin(), outputs.end(), [&](ValueId output) {
      return !users[static_cast<size_t>(output)].empty();
    });
    is_background[i] =
        planned.calls[i].launches > 0 && !is_read && updates_store(graph, graph.nodes[i]);
    if (chains_kernels) chain[i] = !is_background[i] && !is_collective(graph.nodes[i]);
  }
  Ancestors ancestors(nodes);
  Schedule schedule{find_dependences(planned, ancestors, chain), std::move(is_background),
                    std::vector<int>(nodes, 1)};
  std::vector<NodeId> row;
  for (size_t i = 0; i < nodes; ++i) {
    if (planned.calls[i].launches == 0 || schedule.is_background[i] ||
        is_collective(graph.nodes[i]))
      continue;
    // Also through a node in the background, which is in no row.
    const NodeId node = static_cast<NodeId>(i);
    if (std::any_of(row.begin(), row.end(),
                    [&](NodeId before) { return ancestors.has(node, before); }))
      row.clear();
    row.push_back(node);
    for (NodeId each : row)
      schedule.concurrent[static_cast<size_t>(each)] = static_cast<int>(row.size());
  }
  return schedule;
}

}  // namespace ridge::plan
