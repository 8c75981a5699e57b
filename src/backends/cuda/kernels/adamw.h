// SPDX-License-Identifier: Apache-2.0
// AdamW on CUDA, for one tensor or for all tensors in one launch (see backends/kernels/adamw.h for
// the formula), and the factor of gradient clipping.
#pragma once

#include <span>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/adamw.h"

namespace ridge::backends::cuda {

// Updates all tensors in one launch, which carries the table of tensors as its parameters; there is
// one launch per kAdamwMaxTensors tensors. No tensor's result depends on the other tensors. The
// span is read before the launch returns. leaves_room: few blocks per multiprocessor, for a launch
// that runs next to others.
inline constexpr int kAdamwMaxTensors = 384;
int adamw_launches(int64_t tensors);
cudaError_t launch_adamw(std::span<const AdamwTensor> tensors,
                         const AdamwStep& step,
                         bool leaves_room,
                         cudaStream_t stream);

// coefficient = min(1, max_norm / (sqrt(sum_squares) + norm_epsilon)), both one float on the
// device. One launch.
cudaError_t launch_clip_coefficient(const float* sum_squares,
                                    double max_norm,
                                    double norm_epsilon,
                                    float* coefficient,
                                    cudaStream_t stream);

}  // namespace ridge::backends::cuda
