// SPDX-License-Identifier: Apache-2.0
// Stacks weights and replaces groups of GEMMs.
#include "passes/merge_products.h"

#include <map>

#include "base/error.h"
#include "base/fragment_tiles.h"
#include "graph/rewriter.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/gemm_nodes.h"

namespace ridge::passes {
namespace {

bool is_frozen(const Graph& graph, const Node& node) { return graph.value(node.inputs[1]).frozen; }

bool fits(const Users& users, const std::vector<const Node*>& group) {
  for (const Node* node : group) {
    const DType dtype = users.graph().type(node->inputs[1]).dtype;
    if (dtype != users.graph().type(group[0]->inputs[1]).dtype) return false;
    // A stacked weight is trained or not as a whole.
    if (is_frozen(users.graph(), *node) != is_frozen(users.graph(), *group[0])) return false;
    if (users.of(node->inputs[1]).size() != 1) return false;
    // Quantized weights stay where the file stores them, unless they are packed anyway.
    if (is_block(dtype) && !is_fragments(dtype)) return false;
  }
  return true;
}

std::string merged_name(const std::string& first, const std::string& stem) {
  size_t suffix = first.rfind('.');
  size_t prefix = suffix == std::string::npos ? std::string::npos : first.rfind('.', suffix - 1);
  RIDGE_CHECK(prefix != std::string::npos, "a weight named '{}'", first);
  return first.substr(0, prefix + 1) + stem + first.substr(suffix);
}

class Merger {
 public:
  Merger(const Graph& graph, PassContext& context, const std::string& stem)
      : graph_(graph), context_(context), stem_(stem) {}

  // Replaces the group by one matmul at the place of its first; each output becomes a slice of the
  // result.
  void merge(Rewriter& rewriter, const std::vector<const Node*>& group) {
    Builder& b = rewriter.builder();
    std::vector<Origin> from;
    for (const Node* node : group) from = merge_origins(from, node->from);
    ValueId weight = stack_weights(rewriter, group);
    auto derive = b.derive(from, group[0]->scope, group[0]->phase);
    ValueId product =
        b.call("matmul", {rewriter.map(group[0]->inputs[0]), weight}, group[0]->attrs);
    int64_t begin = 0;
    for (const Node* node : group) {
      int64_t end = begin + graph_.shape(node->outputs[0])[1];
      rewriter.replace(node->outputs[0], ops::slice(b, product, 1, begin, end));
      begin = end;
    }
  }

 private:
  ValueId stack_weights(Rewriter& rewriter, const std::vector<const Node*>& group) {
    std::string name = merged_name(graph_.value(group[0]->inputs[1]).name, stem_);
    Builder load(context_.load.graph, context_.ops);
    std::vector<ValueId> parts;
    int64_t rows = 0;
    for (const Node* node : group) {
      const Value& weight = graph_.value(node->inputs[1]);
      parts.push_back(context_.load.stored.at(weight.name));
      context_.load.stored.erase(weight.name);
      rows += weight.type.shape[0];
      rewriter.drop(node->inputs[1]);
    }
    load.set_phase(Phase::kLoad);
    context_.load.stored[name] = ops::concat(load, parts, 0);
    Type type = graph_.type(group[0]->inputs[1]);
    Builder& b = rewriter.builder();
    const ValueId stacked = b.parameter(name, {type.dtype, type.shape.with(0, rows)});
    b.graph().value(stacked).frozen = is_frozen(graph_, *group[0]);
    return stacked;
  }

  const Graph& graph_;
  PassContext& context_;
  const std::string& stem_;
};

}  // namespace

Pattern projection_behind(const std::string& name) {
  return past({&ops::reshape_op(), &ops::rope_op(), &ops::rms_norm_op()},
              node_of(ops::matmul_op(), {any("x"), any("")}).where(is_projection).as(name));
}

Graph merge_products(const Graph& graph, PassContext& context, const MergeableProducts& products) {
  const Users users(graph);
  std::map<const Node*, std::vector<const Node*>> group_of;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const Match& match : products.pattern.matches(users, static_cast<NodeId>(i))) {
      std::vector<const Node*> group;
      for (std::string_view name : products.names) group.push_back(&match.node(name));
      if (!fits(users, group)) continue;
      for (const Node* node : group) group_of[node] = group;
    }
  if (group_of.empty()) return graph;
  Merger merger(graph, context, products.stem);
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    const Node* node = &graph.node(id);
    auto found = group_of.find(node);
    if (found == group_of.end()) return false;
    if (!rewriter.is_mapped(node->outputs[0])) merger.merge(rewriter, found->second);
    return true;
  });
}

}  // namespace ridge::passes
