// SPDX-License-Identifier: Apache-2.0
// Which matmul nodes a native GEMM takes, a kernel that is no library's: for the pass that chooses
// them.
#pragma once

#include "graph/op.h"

namespace ridge::backends::cpu {

// On dense operands; another layout may still go to the library.
bool has_native_gemm(const Call& matmul);

}  // namespace ridge::backends::cpu
