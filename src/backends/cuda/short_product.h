// SPDX-License-Identifier: Apache-2.0
// Identifies products that leave room on the GPU for other kernels, by their arithmetic and not by
// measurement.
#pragma once

#include <cstdint>

#include "backends/cuda/device.h"
#include "base/dtype.h"

namespace ridge::backends::cuda {

// For a product of `macs` multiply-adds on operands of this type. A short product is mostly
// latency; a longer one occupies all multiprocessors several times over.
bool is_short_product(int64_t macs, DType dtype, const DeviceFacts& facts, bool tf32);

}  // namespace ridge::backends::cuda
