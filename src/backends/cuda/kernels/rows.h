// SPDX-License-Identifier: Apache-2.0
// A matrix operand of a CUDA kernel: rows of contiguous elements in device memory, so that a slice
// of a merged tensor is one too. Not a tensor: it knows neither its extents nor its dtype at run
// time.
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__) || defined(__HIP__)
#define RIDGE_HOST_DEVICE __host__ __device__
#else
#define RIDGE_HOST_DEVICE
#endif

namespace ridge::backends::cuda {

template <typename T>
struct Rows {
  T* data = nullptr;   // null where an optional operand is absent
  int64_t stride = 0;  // elements from one row to the next

  RIDGE_HOST_DEVICE T* operator[](int64_t row) const { return data + row * stride; }
  RIDGE_HOST_DEVICE explicit operator bool() const { return data != nullptr; }
  template <typename U>
  requires std::is_same_v<U, const T> RIDGE_HOST_DEVICE operator Rows<U>() const {
    return {data, stride};
  }
};

// Kernels that are given indices cannot stop and tell. An index outside [-1, bound) counts as -1
// (padding, a label that is not counted), and its row goes to a word in device memory that starts
// as kNoBadRow (all bits set) and keeps the first such row of all launches since. Whoever reads it
// resets it. Every launch takes null for "not wanted".
inline constexpr int32_t kNoBadRow = -1;

}  // namespace ridge::backends::cuda
