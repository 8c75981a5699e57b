// SPDX-License-Identifier: Apache-2.0
// Shared by the native_gemm passes of all backends: the attribute `native` of a matmul, which
// allows a native kernel to compute it. The binding makes the final choice of kernel.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace ridge::passes {

// Returns the graph with the attribute set on each matmul that a native kernel supports.
Graph allow_native_gemms(const Graph& graph,
                         const std::function<bool(const Call& matmul)>& has_kernel);

}  // namespace ridge::passes
