// SPDX-License-Identifier: Apache-2.0
// Labels and ids as CPU kernels take them: looked through before anything is written.
#pragma once

#include <cstdint>

namespace ridge::backends::cpu {

// What kernels that are given indices return when all are in range; else the first row whose index
// is not, and then nothing was written.
inline constexpr int64_t kNoBadRow = -1;

// The first of n indices outside [-1, bound), or
// kNoBadRow. -1 stands for padding and ignored labels.
inline int64_t first_bad_row(const int32_t* indices, int64_t n, int64_t bound) {
  for (int64_t i = 0; i < n; ++i) {
    if (indices[i] < -1 || indices[i] >= bound) return i;
  }
  return kNoBadRow;
}

}  // namespace ridge::backends::cpu
