// SPDX-License-Identifier: Apache-2.0
// Products that leave room on the GPU for others: by their arithmetic, not by measurement.
#pragma once

#include <cstdint>

#include "backends/cuda/device.h"
#include "base/dtype.h"

namespace ridge::backends::cuda {

// Of `macs` multiply-adds on operands of this type. Such a product is mostly latency; others take
// all multiprocessors several times over.
bool is_short_product(int64_t macs, DType dtype, const DeviceFacts& facts, bool tf32);

}  // namespace ridge::backends::cuda
