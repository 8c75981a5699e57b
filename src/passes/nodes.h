// SPDX-License-Identifier: Apache-2.0
// Steps of several passes: adding a node that the target may not support, and keeping composites in
// their fused form, where the node stays and expand skips it.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "graph/rewrite_rule.h"
#include "passes/pass.h"

namespace ridge::passes {

struct NewNode {
  std::string_view op;
  std::vector<ValueId> inputs;  // values of the old graph
  Attrs attrs = {};
};

// Whether the target supports the op on operands of these values' types.
bool runs_on_target(const PassContext& context, const Graph& graph, const NewNode& made);

// For each value, whether it is marked, or an output of a node that `starts` or reads such a value.
std::vector<bool> made_from(const Graph& graph,
                            std::vector<bool> marked,
                            const std::function<bool(const Node&)>& starts);

// Appends the node to the new graph and returns its outputs.
std::vector<ValueId> append(Rewriter& rewriter, const NewNode& made);

// Returns the graph with the attribute `fused` set on every node of the op.
Graph keep_whole(const Graph& graph, const Op& op);

// A rule that does the same, for use after other rules: it marks the nodes that they leave.
RewriteRule keep_whole_rule(const Op& op);

}  // namespace ridge::passes
