// SPDX-License-Identifier: Apache-2.0
// A matrix operand of a CPU kernel: rows of contiguous elements, so that a slice of a merged tensor
// is one too. Not a tensor: it knows neither its extents nor its dtype at run time.
#pragma once

#include <cstdint>

namespace ridge::backends::cpu {

template <typename T>
struct Rows {
  T* data = nullptr;   // null where an optional operand is absent
  int64_t stride = 0;  // elements from one row to the next

  T* operator[](int64_t row) const { return data + row * stride; }
  explicit operator bool() const { return data != nullptr; }
  operator Rows<const T>() const { return {data, stride}; }
};

// What kernels that are given indices return when all are in range; else the first row whose index
// is not, and then nothing was written.
inline constexpr int64_t kNoBadRow = -1;

// The first of n indices outside [-1, bound), or kNoBadRow. -1 stands for padding and ignored
// labels.
inline int64_t first_bad_row(const int32_t* indices, int64_t n, int64_t bound) {
  for (int64_t i = 0; i < n; ++i) {
    if (indices[i] < -1 || indices[i] >= bound) return i;
  }
  return kNoBadRow;
}

}  // namespace ridge::backends::cpu
