// SPDX-License-Identifier: Apache-2.0
// Which operand of a product is worth a copy that lies along its depth: for the pass
// `transpose_operands`.
#pragma once

#include "backends/cuda/device.h"
#include "graph/op.h"

namespace ridge::backends::cuda {

// 0 or 1; -1: neither. Of dense operands, the smaller of two that both lie across the depth.
int transposed_operand(const Call& matmul, const DeviceFacts& facts, bool tf32);

}  // namespace ridge::backends::cuda
