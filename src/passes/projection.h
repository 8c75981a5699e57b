// SPDX-License-Identifier: Apache-2.0
// Shared by the passes on GEMMs: recognizes the GEMM of activations and a weight.
#pragma once

#include "graph/graph.h"

namespace ridge::passes {

// Whether the node is y[N,out] = x[N,in] W[out,in]^T without accumulation, where W is a parameter
// itself (of any type), not a value computed from one.
bool is_projection(const Graph& graph, const Node& node);

}  // namespace ridge::passes
