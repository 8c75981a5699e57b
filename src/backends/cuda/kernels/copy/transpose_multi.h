// SPDX-License-Identifier: Apache-2.0
// Transposes several matrices in one launch. T is float or uint16_t.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

inline constexpr int kMostTransposed = 4;

template <typename T>
struct TransposedMatrix {
  int64_t rows = 0, columns = 0;
  StridedRows<const T> source;  // [rows, columns]
  T* target = nullptr;          // [columns, rows], dense
};

template <typename T>
struct TransposeMulti {
  int count = 0;
  TransposedMatrix<T> matrices[kMostTransposed];
};

// Returns cudaErrorInvalidValue for 2^31 tiles or more.
template <typename T>
cudaError_t launch_transpose_multi(const TransposeMulti<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
