// SPDX-License-Identifier: Apache-2.0
// Determines on the old graph where rules apply, then makes the new graph in one pass.
#include "graph/rewrite_rule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace ridge::inline graph {
namespace {

struct Site {
  const RewriteRule* rule;
  Match match;
};

class Rewriting {
 public:
  Rewriting(const Graph& graph, std::span<const RewriteRule> rules)
      : graph_(graph), users_(graph), is_taken_(graph.nodes.size()), goes_(graph.nodes.size()) {
    for (const RewriteRule& rule : rules)
      for (size_t i = 0; i < graph.nodes.size(); ++i) find(rule, static_cast<NodeId>(i));
  }

  bool is_empty() const { return sites_.empty(); }

  bool operator()(Rewriter& rewriter, NodeId id) {
    for (auto [at, end] = sites_.equal_range(id); at != end; ++at) {
      at->second.rule->replace(rewriter, at->second.match);
      note_what_goes(rewriter, at->second.match);
    }
    return goes_[static_cast<size_t>(id)];
  }

 private:
  void find(const RewriteRule& rule, NodeId root) {
    if (is_taken_[static_cast<size_t>(root)]) return;
    for (Match& match : rule.pattern.matches(users_, root)) {
      const NodeId place = rule.at.empty() ? root : graph_.value(match.value(rule.at)).producer;
      if (!is_ready(match, place) || (rule.holds && !rule.holds(match))) continue;
      take(match, root);
      sites_.emplace(place, Site{&rule, std::move(match)});
      return;
    }
  }

  bool is_ready(const Match& match, NodeId place) const {
    return std::all_of(match.leaves().begin(), match.leaves().end(),
                       [&](ValueId leaf) { return graph_.value(leaf).producer < place; });
  }

  void take(const Match& match, NodeId root) {
    auto is_root_output = [&](ValueId value) { return graph_.value(value).producer == root; };
    for (NodeId id : without_need(match, is_root_output)) is_taken_[static_cast<size_t>(id)] = true;
  }

  void note_what_goes(const Rewriter& rewriter, const Match& match) {
    auto is_replaced = [&](ValueId value) { return rewriter.is_mapped(value); };
    for (NodeId id : without_need(match, is_replaced)) goes_[static_cast<size_t>(id)] = true;
  }

  // The nodes of the match whose outputs are replaced or read only by such nodes.
  template <typename IsReplaced>
  std::vector<NodeId> without_need(const Match& match, const IsReplaced& is_replaced) const {
    std::vector<NodeId> nodes = match.nodes(), found;
    std::sort(nodes.rbegin(), nodes.rend());  // readers first
    auto is_found = [&](NodeId id) {
      return std::find(found.begin(), found.end(), id) != found.end();
    };
    for (NodeId id : nodes) {
      const std::vector<ValueId>& outputs = graph_.node(id).outputs;
      bool goes = std::all_of(outputs.begin(), outputs.end(), [&](ValueId output) {
        const std::vector<NodeId>& readers = users_.of(output);
        return is_replaced(output) ||
               (!users_.leaves(output) && std::all_of(readers.begin(), readers.end(), is_found));
      });
      if (goes) found.push_back(id);
    }
    return found;
  }

  const Graph& graph_;
  Users users_;
  std::multimap<NodeId, Site> sites_;
  std::vector<bool> is_taken_, goes_;
};

}  // namespace

Graph rewrite(const Graph& graph, const OpTable& ops, std::span<const RewriteRule> rules) {
  Rewriting rewriting(graph, rules);
  if (rewriting.is_empty()) return graph;
  return Rewriter(graph, ops).run(std::ref(rewriting));
}

}  // namespace ridge::inline graph
