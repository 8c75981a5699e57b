// SPDX-License-Identifier: Apache-2.0
// Resource estimates in closed form, before any graph exists: the cost of training and the largest
// model that fits. The formulas and their sources are in docs/accounting.md.
#pragma once

#include <cstdint>
#include <functional>

namespace ridge::cost {

// Days to train on `tokens` tokens at `flops_per_token`, on `devices` devices with a peak of
// `peak_flops_per_s` at utilization `mfu`.
double training_days(double flops_per_token,
                     double tokens,
                     double devices,
                     double peak_flops_per_s,
                     double mfu);

// Bytes per parameter, without activations.
struct BytesPerParameter {
  double weights = 4;  // master weights and copies
  double gradients = 4;
  double moments = 8;  // AdamW's two moments, fp32
  double total() const { return weights + gradients + moments; }
};
inline constexpr BytesPerParameter kFp32AdamW{};  // 16

// The number of parameters that fit into `memory_bytes` if nothing else is stored.
int64_t largest_model(int64_t memory_bytes, const BytesPerParameter& bytes);

// The largest n in [0, most] with bytes(n) <= memory_bytes. `bytes` must grow with n; an n for
// which it throws an Error does not fit.
int64_t largest_fitting(int64_t memory_bytes,
                        int64_t most,
                        const std::function<int64_t(int64_t)>& bytes);

}  // namespace ridge::cost
