// SPDX-License-Identifier: Apache-2.0
// AdamW with decoupled weight decay (Loshchilov and Hutter 2019), in PyTorch's order of operations,
// on one tensor or on a list of tensors in one launch. Parameters and moments are fp32; gradients
// float or uint16_t (bf16).
#pragma once

#include <cstdint>
#include <span>

namespace ridge::backends::cpu {

template <typename Gradient>
struct AdamwTensor {
  int64_t elements = 0;
  float* parameter = nullptr;
  const Gradient* gradient = nullptr;
  float* m = nullptr;                  // running mean of the gradient
  float* v = nullptr;                  // running mean of its square
  uint16_t* bf16_parameter = nullptr;  // the new parameter rounded to bf16; null: not wanted
  double weight_decay = 0.0;
};

struct AdamwStep {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  int64_t step = 1;          // from 1
  float gradient_scale = 1;  // the gradient is multiplied by this first (clipping, loss scale)
};

// With g = gradient_scale gradient, all in fp32, scalars rounded from double:
//   p *= 1 - lr weight_decay;  m += (1 - beta1) (g - m);  v = beta2 v + (1 - beta2) g g
//   p -= lr / (1 - beta1^step)  m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
template <typename Gradient>
void adamw(const AdamwTensor<Gradient>& tensor, const AdamwStep& step);

// The same, bit for bit, over all tensors in one parallel region.
template <typename Gradient>
void adamw_multi(std::span<const AdamwTensor<Gradient>> tensors, const AdamwStep& step);

}  // namespace ridge::backends::cpu
