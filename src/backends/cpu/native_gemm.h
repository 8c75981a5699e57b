// SPDX-License-Identifier: Apache-2.0
// Determines which matmul nodes a native GEMM supports, for the pass that selects native GEMMs.
#pragma once

#include "graph/op.h"

namespace ridge::backends::cpu {

// Assumes dense operands; with another layout the library may still compute the node.
bool has_native_gemm(const Call& matmul);

}  // namespace ridge::backends::cpu
