// SPDX-License-Identifier: Apache-2.0
// Turns the graph of a pattern into a tree, and copies the nodes of the replacement.
#include "graph/graph_rule.h"

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::inline graph {
namespace {

class PatternTree {
 public:
  explicit PatternTree(const GraphRule& rule) : rule_(rule), graph_(rule.pattern) {}

  Pattern tree() {
    if (graph_.outputs.size() != 1 || graph_.producer(graph_.outputs[0]) == nullptr)
      throw usage_error("[{}] expected a pattern with one output, which a node computes",
                        rule_.name);
    if (graph_.producer(graph_.outputs[0])->outputs.size() != 1)
      throw usage_error("[{}] expected a last op with one output, got {}", rule_.name,
                        graph_.producer(graph_.outputs[0])->op->name);
    Pattern made = of(graph_.outputs[0], 0);
    for (const Value& each : graph_.values)
      if (each.producer == kNoNode && !operands_.contains(each.name))
        throw usage_error("[{}] expected a pattern that reads {}", rule_.name,
                          printable(each.name));
    return made;
  }
  const std::set<std::string>& operands() const { return operands_; }

 private:
  // A value that several nodes read is the same value for all of them, by its name.
  Pattern of(ValueId id, int depth) {
    constexpr int kMostDepth = 64;
    if (depth > kMostDepth)
      throw usage_error("[{}] expected a pattern of at most {} nodes one behind the other",
                        rule_.name, kMostDepth);
    const Node* node = graph_.producer(id);
    if (node == nullptr) {
      operands_.insert(graph_.value(id).name);
      return any("operand " + graph_.value(id).name);
    }
    std::vector<Pattern> inputs;
    for (const ValueId input : node->inputs) inputs.push_back(of(input, depth + 1));
    const auto number = std::ranges::find(node->outputs, id) - node->outputs.begin();
    return node_of(*node->op, std::move(inputs))
        .output(static_cast<size_t>(number))
        .where(
            [attrs = node->attrs](const Graph&, const Node& found) { return found.attrs == attrs; })
        .as(fmt::format("value {}", id));
  }

  const GraphRule& rule_;
  const Graph& graph_;
  std::set<std::string> operands_;
};

// Adds the nodes of the replacement for one match.
void replace(Rewriter& rewriter, const Match& match, const GraphRule& rule) {
  const Graph& graph = rule.replacement;
  const Node& root = match.root();
  const auto derive = rewriter.builder().derive(match.from(), root.scope, root.phase);
  std::vector<ValueId> made(graph.values.size(), kNoValue);
  for (size_t i = 0; i < made.size(); ++i)
    if (const Value& each = graph.values[i]; each.producer == kNoNode)
      made[i] = rewriter.map(match.value("operand " + each.name));
  for (const Node& node : graph.nodes) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(made[static_cast<size_t>(input)]);
    const std::vector<ValueId> outputs =
        rewriter.builder().call_all(node.op->name, std::move(inputs), node.attrs);
    for (size_t i = 0; i < outputs.size(); ++i)
      made[static_cast<size_t>(node.outputs[i])] = outputs[i];
  }
  const ValueId result = made[static_cast<size_t>(graph.outputs[0])];
  const Type found = rewriter.builder().type(result), wanted = match.graph().type(root.outputs[0]);
  if (found != wanted)
    throw usage_error("[{}] expected a replacement of {}, got {}", rule.name, wanted.str(),
                      found.str());
  rewriter.replace(root.outputs[0], result);
}

}  // namespace

RewriteRule rewrite_rule(const GraphRule& rule) {
  PatternTree tree(rule);
  Pattern pattern = tree.tree();
  if (rule.replacement.outputs.size() != 1)
    throw usage_error("[{}] expected a replacement with one output, got {}", rule.name,
                      rule.replacement.outputs.size());
  for (const Value& each : rule.replacement.values)
    if (each.producer == kNoNode && !tree.operands().contains(each.name))
      throw usage_error("[{}] expected a replacement that reads operands of the pattern, got {}",
                        rule.name, printable(each.name));
  return {
      .pattern = std::move(pattern),
      .holds = nullptr,
      .replace = [kept = std::make_shared<const GraphRule>(rule)](
                     Rewriter& rewriter, const Match& match) { replace(rewriter, match, *kept); }};
}

int64_t count_matches(const Graph& graph, const GraphRule& rule) {
  const Pattern pattern = rewrite_rule(rule).pattern;
  const Users users(graph);
  int64_t count = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    count += pattern.matches(users, static_cast<NodeId>(i)).empty() ? 0 : 1;
  return count;
}

}  // namespace ridge::inline graph
