// SPDX-License-Identifier: Apache-2.0
// Shared by group_products and quantize_activations: recognizes GEMMs with quantized weights, which
// stay as the file stores them.
#pragma once

#include "graph/graph.h"

namespace ridge::passes {

// Whether the node is the product of x[N,in] in fp32 and a parameter W[out,in] of another type, in
// fp32.
bool is_quantized_gemm(const Graph& graph, const Node& node);

}  // namespace ridge::passes
