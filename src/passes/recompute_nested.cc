// SPDX-License-Identifier: Apache-2.0
// recompute_nested: of L layers only every ceil(sqrt(L))-th keeps its input. The backward pass of
// such a segment first computes the inputs of its layers again, and then each layer's activations
// from them (Chen et al. 2016, arXiv:1604.06174, section 4, with two levels).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "passes/passes.h"
#include "passes/recomputer.h"

namespace ridge::passes {

Graph run_recompute_nested(const Graph& graph, PassContext& context) {
  int64_t layers = 0;
  for (const Node& node : graph.nodes)
    if (const std::string layer = layer_of(node); !layer.empty())
      layers = std::max(layers, layer_number(layer) + 1);
  const auto length = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(layers))));
  auto segment = [length](const Node& node) -> std::string {
    const std::string layer = layer_of(node);
    return layer.empty() ? "" : fmt::format("segment.{}", layer_number(layer) / length);
  };
  return Recomputer(graph, layer_of, segment).run(context.ops);
}

}  // namespace ridge::passes
