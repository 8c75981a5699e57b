// SPDX-License-Identifier: Apache-2.0
// Determines which operand of a product is worth copying so that it is contiguous along the depth,
// for the pass `transpose_operands`.
#pragma once

#include "backends/cuda/device.h"
#include "graph/op.h"

namespace ridge::backends::cuda {

// Returns 0 or 1, or -1 for neither. If both dense operands are strided along the depth, the
// smaller one is chosen.
int transposed_operand(const Call& matmul, const DeviceFacts& facts, bool tf32);

}  // namespace ridge::backends::cuda
