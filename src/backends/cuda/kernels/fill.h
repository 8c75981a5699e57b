// SPDX-License-Identifier: Apache-2.0
// Sets every element of a strided matrix to one value, on CUDA. T is float, uint16_t (bf16, rounded
// to nearest even) or int32_t.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/rows.h"

namespace ridge::backends::cuda {

template <typename T>
struct Fill {
  int64_t rows = 0;
  int64_t columns = 0;
  Rows<T> y;  // [rows, columns]
  double value = 0;
};

// One launch.
template <typename T>
cudaError_t launch_fill(const Fill<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
