// SPDX-License-Identifier: Apache-2.0
// What passes on GEMMs share: the GEMM of activations by a weight.
#pragma once

#include "graph/graph.h"

namespace ridge::passes {

// Whether the node is y[N,out] = x[N,in] W[out,in]^T with nothing accumulated, W a parameter as it
// was declared (of any type).
bool is_projection(const Graph& graph, const Node& node);

}  // namespace ridge::passes
