// SPDX-License-Identifier: Apache-2.0
// RMS norm over the last axis, alone or with the residual add before or after it, and its gradient,
// on CUDA.
//   rstd[n] = 1 / sqrt(mean over d of x[n, d]^2 + eps),   y[n, d] = x[n, d] rstd[n] (weight_offset
//   + weight[d])
// (Zhang and Sennrich 2019; Gemma stores weight - 1, so its weight_offset is 1.) T is float or
// uint16_t (bf16); arithmetic is fp32 in a fixed order. Not LayerNorm: no mean is subtracted.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/rows.h"

namespace ridge::backends::cuda {

template <typename T>
struct RmsNorm {
  int64_t tokens = 0;             // N
  int64_t width = 0;              // D
  Rows<const T> x;                // [N, D]
  const float* weight = nullptr;  // [D]
  float eps = 0;
  float weight_offset = 0;
  Rows<T> y;              // [N, D]; may be x
  float* rstd = nullptr;  // [N]; null when no gradient will ask for it
};

// One launch.
template <typename T>
cudaError_t launch_rms_norm(const RmsNorm<T>& call, cudaStream_t stream);

// sum = x + residual, then y = the norm of sum as stored (rounded to T). sum may be x or residual,
// and so may y if sum is another. One launch.
template <typename T>
cudaError_t launch_add_rms_norm(const RmsNorm<T>& call,
                                Rows<const T> residual,
                                Rows<T> sum,
                                cudaStream_t stream);

// y = residual + the norm of x; y may be x or residual. One launch.
template <typename T>
cudaError_t launch_rms_norm_add(const RmsNorm<T>& call,
                                Rows<const T> residual,
                                cudaStream_t stream);

inline constexpr int kTicketWords = 2;

template <typename T>
struct RmsNormBackward {
  int64_t tokens = 0;             // N
  int64_t width = 0;              // D
  Rows<const T> dy;               // [N, D]
  Rows<const T> x;                // [N, D], what was normed
  const float* weight = nullptr;  // [D]
  float weight_offset = 0;
  const float* rstd = nullptr;  // [N], from the forward
  Rows<const T> d_residual;     // [N, D] added to dx; absent when null
  Rows<T> dx;                   // [N, D]; may be d_residual
  float* d_weight = nullptr;    // [D], overwritten
  float* workspace = nullptr;  // rms_norm_backward_workspace_bytes, aligned to 16; contents ignored
  int32_t* tickets = nullptr;  // kTicketWords zeros, which are zeros again when it is done
};

// A function of the extents alone.
int64_t rms_norm_backward_workspace_bytes(int64_t tokens, int64_t width);

// One launch.
template <typename T>
cudaError_t launch_rms_norm_backward(const RmsNormBackward<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
