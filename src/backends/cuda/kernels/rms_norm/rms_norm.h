// SPDX-License-Identifier: Apache-2.0
// RMS norm on CUDA, alone or with the residual addition before or after it, and its gradient.
// backends/kernels/rms_norm.h has the definitions. Arithmetic is fp32 in a fixed order.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/ticketed.h"
#include "backends/kernels/rms_norm.h"

namespace ridge::backends::cuda {

// One launch.
template <typename T>
cudaError_t launch_rms_norm(const RmsNorm<T>& call, cudaStream_t stream);

// sum = x + residual, then y = the norm of sum as stored (rounded to T). sum may alias x or
// residual. So may y, but not the one that sum aliases. One launch.
template <typename T>
cudaError_t launch_add_rms_norm(const RmsNorm<T>& call,
                                StridedRows<const T> residual,
                                StridedRows<T> sum,
                                cudaStream_t stream);

// y = residual + the norm of x; y may alias x or residual. One launch.
template <typename T>
cudaError_t launch_rms_norm_add(const RmsNorm<T>& call,
                                StridedRows<const T> residual,
                                cudaStream_t stream);

// Depends only on the extents; the workspace is aligned to 16, and its initial contents are
// ignored.
int64_t rms_norm_backward_workspace_bytes(int64_t tokens, int64_t width);

// Needs kTicketWords tickets. One launch.
template <typename T>
cudaError_t launch_rms_norm_backward(const Ticketed<RmsNormBackward<T>>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
