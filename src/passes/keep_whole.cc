// SPDX-License-Identifier: Apache-2.0
// The attribute `fused`.
#include "passes/keep_whole.h"

namespace ridge::passes {

Graph keep_whole(const Graph& graph, std::string_view op) {
  Graph result = graph;
  for (Node& node : result.nodes)
    if (node.op->name == op) node.attrs.set("fused", true);
  return result;
}

}  // namespace ridge::passes
