// SPDX-License-Identifier: Apache-2.0
// Checks labels and ids before a CPU kernel writes anything.
#pragma once

#include <cstdint>

namespace ridge::backends::cpu {

// Kernels that take indices return this if all are in range; else they return the first row whose
// index is not, and have written nothing.
inline constexpr int64_t kNoBadRow = -1;

// The first of n indices outside [-1, bound), or kNoBadRow. -1 marks padding and ignored labels.
inline int64_t first_bad_row(const int32_t* indices, int64_t n, int64_t bound) {
  for (int64_t i = 0; i < n; ++i) {
    if (indices[i] < -1 || indices[i] >= bound) return i;
  }
  return kNoBadRow;
}

}  // namespace ridge::backends::cpu
