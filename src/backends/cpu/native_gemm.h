// SPDX-License-Identifier: Apache-2.0
// Which matmul nodes a native kernel takes: for the pass of that name.
#pragma once

#include "graph/op.h"

namespace ridge::backends::cpu {

// On dense operands; another layout may still go to the library.
bool has_native_gemm(const Call& matmul);

}  // namespace ridge::backends::cpu
