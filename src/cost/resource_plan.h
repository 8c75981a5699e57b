// SPDX-License-Identifier: Apache-2.0
// Resource arithmetic in closed form: what training costs and what fits, before any graph exists.
// The formulas and their sources are in docs/accounting.md.
#pragma once

#include <cstdint>
#include <functional>

namespace ridge::cost {

// PaLM's estimate (arXiv:2204.02311, appendix B), forward and backward: 6 N + 12 L H Q T FLOPs a
// token, for N parameters that take part in products, L layers, H heads of size Q, sequences of T.
struct PalmExtents {
  int64_t parameters = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t head_size = 0;
  int64_t sequence = 0;
};
int64_t palm_flops_per_token(const PalmExtents& extents);

// Days to train on `tokens`, at `flops_per_token`, on `devices` of `peak_flops_per_s` of which
// `mfu` is reached.
double training_days(double flops_per_token,
                     double tokens,
                     double devices,
                     double peak_flops_per_s,
                     double mfu);

// What a parameter takes besides activations.
struct BytesPerParameter {
  double weights = 4;  // masters and copies
  double gradients = 4;
  double moments = 8;  // AdamW's two, fp32
  double total() const { return weights + gradients + moments; }
};
inline constexpr BytesPerParameter kFp32AdamW{};  // 16

// Parameters that `memory_bytes` hold with nothing else beside them.
int64_t largest_model(int64_t memory_bytes, const BytesPerParameter& bytes);

// The largest n in [0, most] with bytes(n) <= memory_bytes, for bytes that grow with n; an n for
// which `bytes` throws an Error does not fit.
int64_t largest_fitting(int64_t memory_bytes,
                        int64_t most,
                        const std::function<int64_t(int64_t)>& bytes);

}  // namespace ridge::cost
