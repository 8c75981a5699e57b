// SPDX-License-Identifier: Apache-2.0
// Loops that only unpack panels of rows (base/row_panels.h): quants to uint8, scales and mins to
// floats, as kernels do before they multiply. Nothing is stored. No model runs them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace ridge::backends::cpu {

// Unpacks `bytes` bytes of whole panels of type `panels`.
void unpack_panels_avx2(DType panels, const std::byte* data, int64_t bytes);
void unpack_panels_avx512(DType panels, const std::byte* data, int64_t bytes);

}  // namespace ridge::backends::cpu
