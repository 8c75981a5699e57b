// SPDX-License-Identifier: Apache-2.0
// own_products: products that the target has a kernel of its own for may be computed by it instead
// of a library's. Which one runs in the end is the binding's choice.
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Graph run(const Graph& graph, PassContext& context) {
  Graph result = graph;
  for (Node& node : result.nodes)
    if (node.op->name == "matmul" && context.target.has_own_product(graph, node))
      node.attrs.set("own", true);
  return result;
}

}  // namespace

const Pass& own_products_pass() {
  static const Pass pass{"own_products", Stage::kStep,
                         "products by kernels of our own where the target has one: fp32 as sums of "
                         "bf16 pieces on Hopper, bf16 by the tiles of AMX",
                         "last bits: the error is the library's, the rounding is not", run};
  return pass;
}

}  // namespace ridge::passes
