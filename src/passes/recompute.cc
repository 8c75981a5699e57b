// SPDX-License-Identifier: Apache-2.0
// recompute: each layer, or each of the first ones, keeps only its input; its backward pass
// computes the layer's activations again.
#include <cstdint>
#include <limits>

#include "passes/passes.h"
#include "passes/recomputer.h"

namespace ridge::passes {

Graph run_recompute(const Graph& graph, PassContext& context) {
  // It takes the first layers, because their backward passes come last, when the activations of the
  // layers after them are gone.
  const int64_t layers = context.number.value_or(std::numeric_limits<int64_t>::max());
  return Recomputer(graph,
                    [layers](const Node& node) {
                      const std::string layer = layer_of(node);
                      return !layer.empty() && layer_number(layer) < layers ? layer : std::string();
                    })
      .run(context.ops);
}

}  // namespace ridge::passes
