// SPDX-License-Identifier: Apache-2.0
// Names the kernels of products as a profiler would list them.
#pragma once

#include <string>

#include "graph/graph.h"

namespace ridge::backends::cpu {

// The kernel that a product of dense operands runs by default: "gemv", "tile_gemm", or oneDNN's own
// name of what it generates, "brg:avx512_core". Empty for other ops and for quantized weights.
std::string product_kernel(const Graph& graph, const Node& node);

}  // namespace ridge::backends::cpu
