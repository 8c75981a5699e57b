// SPDX-License-Identifier: Apache-2.0
// Reductions on CUDA: each row to one value, all rows to one row (defined in
// backends/kernels/reduce.h), and whole tensors to their sum of squares.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/reduce.h"

namespace ridge::backends::cuda {

// One launch.
template <typename In, typename Out>
cudaError_t launch_reduce_rows(const ReduceRows<In, Out>& call, cudaStream_t stream);

// Depends only on the extents; the workspace is aligned to 16. Returns 0, for no workspace, if one
// launch is enough.
int64_t sum_columns_workspace_bytes(int64_t rows, int64_t columns);
int sum_columns_launches(int64_t rows, int64_t columns);

template <typename In, typename Out>
cudaError_t launch_sum_columns(const SumColumns<In, Out>& call, cudaStream_t stream);

// y = the sum of squares over all tensors: fp32 within a block, then double.
struct SumSquares {
  std::span<const SquaresTensor> tensors;  // read before the launch returns
  float* y = nullptr;                      // a single value
  double* workspace = nullptr;             // sum_squares_workspace_bytes; initial contents ignored
};

int64_t sum_squares_workspace_bytes(std::span<const SquaresTensor> tensors);
int sum_squares_launches(std::span<const SquaresTensor> tensors);  // 2 up to 512 tensors
cudaError_t launch_sum_squares(const SumSquares& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
