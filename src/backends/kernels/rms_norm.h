// SPDX-License-Identifier: Apache-2.0
// Arguments of the rms_norm kernels: RMSNorm over the last axis, and its gradient.
//   rstd[n] = 1 / sqrt(mean over d of x[n, d]^2 + eps)
//   y[n, d] = x[n, d] rstd[n] (weight_offset + weight[d])
// (Zhang and Sennrich 2019; Gemma stores weight - 1, so its weight_offset is 1.) T is float,
// uint16_t (bf16) or Float16. Unlike LayerNorm, no mean is subtracted.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

template <typename T>
struct RmsNorm {
  int64_t tokens = 0;             // N
  int64_t width = 0;              // D
  StridedRows<const T> x;         // [N, D]
  const float* weight = nullptr;  // [D]
  float eps = 0;
  float weight_offset = 0;
  StridedRows<T> y;       // [N, D]; may be x
  float* rstd = nullptr;  // [N]; null if no gradient needs it
};

// sum = x + residual, then y = the norm of sum as stored (rounded to T). sum may alias x or
// residual, and so may y if it does not alias sum.
template <typename T>
struct AddRmsNorm {
  RmsNorm<T> norm;
  StridedRows<const T> residual;  // [N, D]
  StridedRows<T> sum;             // [N, D]
};

template <typename T>
struct RmsNormBackward {
  int64_t tokens = 0;             // N
  int64_t width = 0;              // D
  StridedRows<const T> dy;        // [N, D]
  StridedRows<const T> x;         // [N, D], the input of the norm
  const float* weight = nullptr;  // [D]
  float weight_offset = 0;
  const float* rstd = nullptr;      // [N], from the forward
  StridedRows<const T> d_residual;  // [N, D], added to dx; null if absent
  StridedRows<T> dx;                // [N, D]; may be d_residual
  float* d_weight = nullptr;        // [D], overwritten
  float* workspace = nullptr;       // the backend's rms_norm_backward_workspace_bytes
};

}  // namespace ridge::backends
