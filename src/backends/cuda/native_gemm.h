// SPDX-License-Identifier: Apache-2.0
// Determines which matmul nodes a native GEMM supports, for the pass that selects native GEMMs.
#pragma once

#include "graph/op.h"

namespace ridge::backends::cuda {

// Assumes dense operands and requires a single launch; with another layout the library may still
// compute the node.
bool has_native_gemm(const Call& matmul, bool tf32);

}  // namespace ridge::backends::cuda
