// SPDX-License-Identifier: Apache-2.0
// recompute_attention: attention keeps q, k, v and its output; its backward pass computes the
// scores and their softmax again. Flash attention does so by itself and stays as it is.
#include <fmt/format.h>

#include <algorithm>

#include "ops/registry.h"
#include "passes/passes.h"
#include "passes/recomputer.h"

namespace ridge::passes {

Graph run_recompute_attention(const Graph& graph, PassContext& context) {
  // Nodes that a composite `attention` became have it as their only origin.
  auto part = [&graph](const Node& node) -> std::string {
    if (node.from.empty() || is_a(node, ops::flash_attention_op())) return "";
    const int32_t id = node.from.front().id;
    const bool is_core = std::all_of(node.from.begin(), node.from.end(), [&](const Origin& from) {
      return from.id == id && graph.origins[static_cast<size_t>(from.id)].op == "attention";
    });
    return is_core ? fmt::format("attention.{}", id) : "";
  };
  return Recomputer(graph, part).run(context.ops);
}

}  // namespace ridge::passes
