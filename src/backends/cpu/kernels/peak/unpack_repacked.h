// SPDX-License-Identifier: Apache-2.0
// Loops that only unpack repacked tiles (base/repacked_tiles.h): quants to uint8, scales and mins
// to floats, as kernels do before they multiply. Nothing is stored. No model runs them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace ridge::backends::cpu {

// Unpacks `bytes` bytes of whole repacked tiles of type `tiles`.
void unpack_repacked_avx2(DType tiles, const std::byte* data, int64_t bytes);
void unpack_repacked_avx512(DType tiles, const std::byte* data, int64_t bytes);

}  // namespace ridge::backends::cpu
