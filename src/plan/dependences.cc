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

// Returns Schedule::after and fills `ancestors`.
std::vector<std::vector<NodeId>> find_dependences(const PlannedGraph& planned,
                                                  Ancestors& ancestors) {
  const Graph& graph = planned.graph;
  Addresses addresses(planned);
  std::vector<Accesses> touched(graph.nodes.size());
  std::vector<std::vector<NodeId>> after(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (planned.calls[i].launches == 0) continue;
    NodeId node = static_cast<NodeId>(i);
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

Schedule schedule_branches(const PlannedGraph& planned) {
  const Graph& graph = planned.graph;
  Ancestors ancestors(graph.nodes.size());
  Schedule schedule{find_dependences(planned, ancestors),
                    std::vector<bool>(graph.nodes.size(), false),
                    std::vector<int>(graph.nodes.size(), 1)};
  std::vector<std::vector<NodeId>> users = graph.users();
  std::vector<NodeId> row;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (planned.calls[i].launches == 0) continue;
    const std::vector<ValueId>& outputs = graph.nodes[i].outputs;
    bool is_read = std::any_of(outputs.begin(), outputs.end(), [&](ValueId output) {
      return !users[static_cast<size_t>(output)].empty();
    });
    schedule.is_background[i] = !is_read && updates_store(graph, graph.nodes[i]);
    if (schedule.is_background[i]) continue;
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
