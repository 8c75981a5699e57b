// SPDX-License-Identifier: Apache-2.0
// A node that a pass might make: asking the target for its kernel, and making it.
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

// Whether the target runs the op on operands of these values' types.
bool runs_on_target(const PassContext& context, const Graph& graph, const NewNode& made);

// Appends it to the new graph; the outputs.
std::vector<ValueId> append(Rewriter& rewriter, const NewNode& made);

}  // namespace ridge::passes
