// SPDX-License-Identifier: Apache-2.0
// A matrix product with any strides, for the few products that the library does not support.
// Simple, not fast.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "base/dtype.h"

namespace ridge::backends::cuda {

// Element (i, j) of matrix b is at data + b batch + i row + j column, in elements; f32 or bf16.
struct StridedMatrix {
  const void* data = nullptr;
  int64_t row = 0;
  int64_t column = 0;
  int64_t batch = 0;
};

struct StridedProduct {
  int64_t batch = 1, m = 0, n = 0, k = 0;
  StridedMatrix a;    // [m, k]
  StridedMatrix b;    // [k, n]
  void* c = nullptr;  // [m, n]
  int64_t c_row = 0, c_column = 0, c_batch = 0;
  DType input = DType::kF32;
  DType output = DType::kF32;
  bool accumulate = false;  // c += a b
};

// fp32 sums in the order of k. One launch.
cudaError_t launch_strided_product(const StridedProduct& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
