// SPDX-License-Identifier: Apache-2.0
// Sets the attribute `native`. Not a pass: each backend's native_gemm pass calls it with a
// predicate for its kernels.
#include "passes/native_gemm.h"

#include "ops/registry.h"

namespace ridge::passes {

Graph allow_native_gemms(const Graph& graph,
                         const std::function<bool(const Call& matmul)>& has_kernel) {
  Graph result = graph;
  for (Node& node : result.nodes)
    if (is_a(node, ops::matmul_op()) && has_kernel(CallTypes(graph, node).call()))
      node.attrs.set("native", true);
  return result;
}

}  // namespace ridge::passes
