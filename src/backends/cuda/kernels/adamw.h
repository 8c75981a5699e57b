// SPDX-License-Identifier: Apache-2.0
// AdamW with decoupled weight decay (Loshchilov and Hutter 2019) on CUDA, in PyTorch's order of
// operations, on one tensor or on all tensors in one launch; and the factor of gradient clipping.
// Parameters and moments are fp32.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cuda/kernels/gpu_runtime.h"

namespace ridge::backends::cuda {

struct AdamwTensor {
  int64_t elements = 0;
  float* parameter = nullptr;
  const float* gradient = nullptr;  // this or bf16_gradient
  const uint16_t* bf16_gradient = nullptr;
  float* m = nullptr;                  // running mean of the gradient
  float* v = nullptr;                  // running mean of its square
  uint16_t* bf16_parameter = nullptr;  // the new parameter rounded to bf16; null: not wanted
  double weight_decay = 0.0;
};

// What changes from step to step is read on the device, so that a captured launch stays true.
struct AdamwStep {
  const float* learning_rate = nullptr;  // one, on the device
  const float* step = nullptr;           // one, on the device: 1, 2, ...
  const float* gradient_scale =
      nullptr;  // one, on the device: every gradient is multiplied by it; null: 1
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  bool leaves_room = false;  // few blocks a multiprocessor, for a launch beside others
};

// With g = gradient_scale gradient, all in fp32, scalars rounded from double:
//   p *= 1 - lr weight_decay;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g g
//   p -= lr / (1 - beta1^step)  m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
// One launch.
cudaError_t launch_adamw(const AdamwTensor& tensor, const AdamwStep& step, cudaStream_t stream);

// The same, bit for bit, over all tensors in one launch, which carries the table of tensors as its
// parameters; one launch more for each kAdamwMaxTensors. The span is read before the launch
// returns.
inline constexpr int kAdamwMaxTensors = 384;
int adamw_multi_launches(int64_t tensors);
cudaError_t launch_adamw_multi(std::span<const AdamwTensor> tensors,
                               const AdamwStep& step,
                               cudaStream_t stream);

// coefficient = min(1, max_norm / (sqrt(sum_squares) + norm_epsilon)), both one float on the
// device. One launch.
cudaError_t launch_clip_coefficient(const float* sum_squares,
                                    double max_norm,
                                    double norm_epsilon,
                                    float* coefficient,
                                    cudaStream_t stream);

}  // namespace ridge::backends::cuda
