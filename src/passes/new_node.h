// SPDX-License-Identifier: Apache-2.0
// A node that a pass may add: checks whether the target supports it, and appends it.
#pragma once

#include <string_view>
#include <vector>

#include "graph/rewriter.h"
#include "passes/pass.h"

namespace ridge::passes {

struct NewNode {
  std::string_view op;
  std::vector<ValueId> inputs;  // values of the old graph
  Attrs attrs = {};
};

// Whether the target supports the op on operands of these values' types.
bool runs_on_target(const PassContext& context, const Graph& graph, const NewNode& made);

// Appends the node to the new graph and returns its outputs.
std::vector<ValueId> append(Rewriter& rewriter, const NewNode& made);

}  // namespace ridge::passes
