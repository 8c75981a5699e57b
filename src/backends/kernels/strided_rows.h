// SPDX-License-Identifier: Apache-2.0
// A matrix operand of a kernel: rows of contiguous elements in device memory, so that a slice of a
// merged tensor is one too. It stores neither its extents nor its dtype.
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__CUDACC__) || defined(__HIP__)
#define RIDGE_HOST_DEVICE __host__ __device__
#else
#define RIDGE_HOST_DEVICE
#endif

namespace ridge::backends {

template <typename T>
struct StridedRows {
  T* data = nullptr;   // null if an optional operand is absent
  int64_t stride = 0;  // elements from one row to the next

  RIDGE_HOST_DEVICE T* operator[](int64_t row) const { return data + row * stride; }
  RIDGE_HOST_DEVICE explicit operator bool() const { return data != nullptr; }
  template <typename U>
  requires std::is_same_v<U, const T> RIDGE_HOST_DEVICE operator StridedRows<U>() const {
    return {data, stride};
  }
};

}  // namespace ridge::backends
