// SPDX-License-Identifier: Apache-2.0
// Random operands for timed work, because zeros multiply faster. Not used for a model's weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/dtype.h"

namespace ridge::backends {

// Returns `bytes` of fp32 or bf16 numbers, uniform in [-0.5, 0.5).
std::vector<std::byte> random_block(DType dtype, int64_t bytes, uint32_t seed);

}  // namespace ridge::backends
