// SPDX-License-Identifier: Apache-2.0
// Arguments of the AdamW kernels: AdamW with decoupled weight decay (Loshchilov and Hutter 2019),
// in PyTorch's order of operations. Parameters and moments are fp32. Also the arguments of the clip
// coefficient, the factor of gradient clipping, and of dynamic loss scaling.
#pragma once

#include <cstdint>

#include "base/float16.h"

namespace ridge::backends {

struct AdamwTensor {
  int64_t elements = 0;
  float* parameter = nullptr;
  const float* gradient = nullptr;  // either this or one of 16 bits
  const uint16_t* bf16_gradient = nullptr;
  float* m = nullptr;                  // running mean of the gradient
  float* v = nullptr;                  // running mean of its square
  uint16_t* bf16_parameter = nullptr;  // the new parameter rounded to bf16; not written if null
  double weight_decay = 0.0;
  const Float16* f16_gradient = nullptr;  // instead of the others
  Float16* f16_parameter = nullptr;       // a copy rounded to fp16
};

// Values that change from step to step are read from device memory when the kernel runs. With g =
// gradient_scale gradient, all in fp32, scalars rounded from double:
//   p *= 1 - lr weight_decay;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g g
//   p -= lr / (1 - beta1^step)  m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
// A gradient_scale below 0 leaves everything as it is.
struct AdamwStep {
  const float* learning_rate = nullptr;   // one
  const float* step = nullptr;            // one: 1, 2, ...
  const float* gradient_scale = nullptr;  // one (clipping, loss scale); 1 if null
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
};

// coefficient = min(1, max_norm / (sqrt(sum_squares) + norm_epsilon)).
struct ClipCoefficient {
  const float* sum_squares = nullptr;  // one
  double max_norm = 0;
  double norm_epsilon = 0;
  float* coefficient = nullptr;  // one
};

// Dynamic loss scaling; see ops/loss_scale.cc. Each pointer is to one number; the scale and the two
// counts are updated in place.
struct LossScale {
  const float* sum_squares = nullptr;
  float* scale = nullptr;
  float* good_steps = nullptr;
  float* skipped_steps = nullptr;
  const float* step = nullptr;
  float* factor = nullptr;
  float* updates = nullptr;
  float* squared_norm = nullptr;
  int64_t growth_interval = 0;
  double max_norm = 0;
  double norm_epsilon = 0;
  double least_scale = 0;
  double most_scale = 0;
};

}  // namespace ridge::backends
