// SPDX-License-Identifier: Apache-2.0
// generate_pointwise: merges each cluster of pointwise nodes of one shape into one generated
// kernel, so that intermediate values stay in registers or L1.
#include <algorithm>
#include <map>
#include <set>

#include "graph/rewriter.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

// More instructions would spill the tile's registers out of L1.
constexpr size_t kLargestCluster = 32;

struct Cluster {
  std::vector<NodeId> nodes;  // in schedule order
  NodeId last() const { return nodes.back(); }
};

class Clusterer {
 public:
  explicit Clusterer(const Graph& graph)
      : graph_(graph), users_(graph.users()), cluster_of_(graph.nodes.size(), -1) {}

  std::vector<Cluster> run() {
    for (size_t i = 0; i < graph_.nodes.size(); ++i)
      if (graph_.nodes[i].op->kind == OpKind::kPointwise) place(static_cast<NodeId>(i));
    std::vector<Cluster> real;
    for (Cluster& cluster : clusters_)
      if (cluster.nodes.size() > 1) real.push_back(std::move(cluster));
    return real;
  }

 private:
  // Adds a node to the clusters of its inputs, which become one where branches meet, or starts a
  // new cluster.
  void place(NodeId id) {
    int home = -1;
    for (ValueId input : graph_.node(id).inputs) {
      NodeId producer = graph_.value(input).producer;
      int index = producer == kNoNode ? -1 : cluster_of_[static_cast<size_t>(producer)];
      if (index < 0 || index == home) continue;
      std::vector<NodeId> nodes = joined(home, index);
      if (!joins(nodes, id)) continue;
      home = home < 0 ? index : home;
      if (index != home) clusters_[static_cast<size_t>(index)].nodes.clear();
      for (NodeId member : nodes) cluster_of_[static_cast<size_t>(member)] = home;
      clusters_[static_cast<size_t>(home)].nodes = std::move(nodes);
    }
    if (home < 0) {
      home = static_cast<int>(clusters_.size());
      clusters_.emplace_back();
    }
    cluster_of_[static_cast<size_t>(id)] = home;
    clusters_[static_cast<size_t>(home)].nodes.push_back(id);
  }

  // The nodes of two clusters, or of the second alone, in schedule order.
  std::vector<NodeId> joined(int home, int index) const {
    std::vector<NodeId> nodes = clusters_[static_cast<size_t>(index)].nodes;
    if (home < 0) return nodes;
    const std::vector<NodeId>& others = clusters_[static_cast<size_t>(home)].nodes;
    nodes.insert(nodes.end(), others.begin(), others.end());
    std::sort(nodes.begin(), nodes.end());
    return nodes;
  }

  // The kernel runs in place of the last node, so no node before that may read a value of the
  // cluster unless it belongs to it.
  bool joins(const std::vector<NodeId>& nodes, NodeId id) const {
    const Node& node = graph_.node(id);
    if (nodes.size() >= kLargestCluster) return false;
    for (NodeId member : nodes) {
      const Node& each = graph_.node(member);
      if (node.phase != each.phase ||
          graph_.shape(node.outputs[0]) != graph_.shape(each.outputs[0]))
        return false;
      for (ValueId output : each.outputs)
        for (NodeId user : users_[static_cast<size_t>(output)])
          if (user < id && !std::binary_search(nodes.begin(), nodes.end(), user)) return false;
    }
    return true;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<int> cluster_of_;
  std::vector<Cluster> clusters_;
};

// Emits one cluster as a generated_pointwise node.
class Generator {
 public:
  Generator(Rewriter& rewriter,
            const Cluster& cluster,
            const std::vector<std::vector<NodeId>>& users)
      : rewriter_(rewriter),
        graph_(rewriter.old()),
        cluster_(cluster),
        users_(users),
        program_builder_(program_, rewriter.builder().ops()) {}

  void emit() {
    std::vector<Origin> from;
    for (NodeId id : cluster_.nodes) {
      const Node& node = graph_.node(id);
      from = merge_origins(from, node.from);
      std::vector<ValueId> inputs;
      for (ValueId input : node.inputs) inputs.push_back(inside(input));
      auto derive = program_builder_.derive({}, "", node.phase);
      values_[node.outputs[0]] = program_builder_.call(node.op->name, inputs, node.attrs);
    }
    std::vector<ValueId> leaving;
    for (NodeId id : cluster_.nodes) {
      ValueId output = graph_.node(id).outputs[0];
      if (!leaves(output)) continue;
      leaving.push_back(output);
      program_.outputs.push_back(values_.at(output));
    }
    if (leaving.empty()) return;  // nothing reads its results
    const Node& last = graph_.node(cluster_.last());
    auto derive = rewriter_.builder().derive(from, last.scope, last.phase);
    NestedGraph program = std::make_shared<const Graph>(std::move(program_));
    std::vector<ValueId> made =
        rewriter_.builder().call_all("generated_pointwise", inputs_, {{"program", program}});
    rewriter_.replace_all(leaving, made);
  }

 private:
  // The program's value for a graph value: one made inside the cluster, or an input.
  ValueId inside(ValueId value) {
    auto found = values_.find(value);
    if (found != values_.end()) return found->second;
    std::string label = std::to_string(inputs_.size());
    inputs_.push_back(rewriter_.map(value));
    return values_[value] = program_builder_.input(label, graph_.type(value));
  }

  bool leaves(ValueId value) const {
    for (NodeId user : users_[static_cast<size_t>(value)])
      if (std::find(cluster_.nodes.begin(), cluster_.nodes.end(), user) == cluster_.nodes.end())
        return true;
    return std::find(graph_.outputs.begin(), graph_.outputs.end(), value) != graph_.outputs.end();
  }

  Rewriter& rewriter_;
  const Graph& graph_;
  const Cluster& cluster_;
  const std::vector<std::vector<NodeId>>& users_;
  Graph program_;
  Builder program_builder_;
  std::map<ValueId, ValueId> values_;  // old value -> program value
  std::vector<ValueId> inputs_;        // the node's operands in the new graph
};

}  // namespace

Graph run_generate_pointwise(const Graph& graph, PassContext& context) {
  std::vector<Cluster> clusters = Clusterer(graph).run();
  if (clusters.empty()) return graph;
  std::vector<std::vector<NodeId>> users = graph.users();
  std::map<NodeId, const Cluster*> member_of;
  for (const Cluster& cluster : clusters)
    for (NodeId id : cluster.nodes) member_of[id] = &cluster;
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    auto found = member_of.find(id);
    if (found == member_of.end()) return false;
    if (id == found->second->last()) Generator(rewriter, *found->second, users).emit();
    return true;
  });
}

}  // namespace ridge::passes
