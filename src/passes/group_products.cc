// SPDX-License-Identifier: Apache-2.0
// group_products: runs the GEMMs of one input with several weights that stay as their file stores
// them (q, k and v; gate and up) in one launch. merge_products handles weights that can be
// stacked. The pass has no pattern, since the readers of one value do not form a tree.
#include <map>

#include "graph/rewriter.h"
#include "passes/gemm_nodes.h"
#include "passes/nodes.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

// Groups of two or more GEMMs, by their first node.
std::map<NodeId, std::vector<NodeId>> groups_of(const Graph& graph) {
  std::map<std::pair<ValueId, Phase>, std::vector<NodeId>> readers;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (is_quantized_gemm(graph, graph.nodes[i]))
      readers[{graph.nodes[i].inputs[0], graph.nodes[i].phase}].push_back(static_cast<NodeId>(i));
  std::map<NodeId, std::vector<NodeId>> groups;
  for (auto& [key, nodes] : readers)
    if (nodes.size() > 1) groups[nodes[0]] = std::move(nodes);
  return groups;
}

}  // namespace

Graph run_group_products(const Graph& graph, PassContext& context) {
  std::map<NodeId, std::vector<NodeId>> groups = groups_of(graph);
  if (groups.empty()) return graph;
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    const Node& node = graph.node(id);
    if (rewriter.is_mapped(node.outputs[0])) return true;  // replaced with the first of its group
    auto found = groups.find(id);
    if (found == groups.end()) return false;
    NewNode group{"quantized_matmul", {node.inputs[0]}};
    std::vector<ValueId> replaced;
    std::vector<Origin> from;
    for (NodeId member : found->second) {
      group.inputs.push_back(graph.node(member).inputs[1]);
      replaced.push_back(graph.node(member).outputs[0]);
      from = merge_origins(from, graph.node(member).from);
    }
    if (!runs_on_target(context, graph, group)) return false;
    auto derive = rewriter.builder().derive(from, node.scope, node.phase);
    rewriter.replace_all(replaced, append(rewriter, group));
    return true;
  });
}

}  // namespace ridge::passes
