// SPDX-License-Identifier: Apache-2.0
// The shape of a bf16 tile register and its contents.
#pragma once

#include <cstdint>

namespace ridge::backends::cpu {

// 16 rows of 64 bytes. A left operand: 16 rows x 32 columns. A right operand: 16 pairs of rows x 16
// columns, with the elements of the two rows side by side. Sums: 16 rows x 16 columns of fp32.
inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileDepth = 32;
inline constexpr int64_t kTileElements = kTileRows * kTileDepth;

}  // namespace ridge::backends::cpu
