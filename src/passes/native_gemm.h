// SPDX-License-Identifier: Apache-2.0
// What the passes native_gemm of all backends share: the attribute `native` of a matmul, which says
// that a native kernel may compute it. Which one runs in the end is the binding's choice.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace ridge::passes {

// The graph with the attribute set on each matmul that there is a native kernel for.
Graph allow_native_gemms(const Graph& graph,
                         const std::function<bool(const Call& matmul)>& has_kernel);

}  // namespace ridge::passes
