// SPDX-License-Identifier: Apache-2.0
// The shape of a tile register of bf16 and what lies in one.
#pragma once

#include <cstdint>

namespace ridge::backends::cpu {

// 16 rows of 64 bytes. Of a product's left operand 16 rows x 32 columns; of its right one 16 pairs
// of rows x 16 columns, the two rows' elements side by side; of sums 16 rows x 16 columns of fp32.
inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileDepth = 32;
inline constexpr int64_t kTileElements = kTileRows * kTileDepth;

}  // namespace ridge::backends::cpu
