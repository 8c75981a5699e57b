// SPDX-License-Identifier: Apache-2.0
// Per-target: the sum of a row's exponentials in one pass over it, for softmax, log_softmax and the
// losses.
#include <hwy/highway.h>

#include <cmath>
#include <limits>

#include "backends/cpu/kernels/vector_io-inl.h"
#include "backends/cpu/kernels/vector_math-inl.h"

#if defined(RIDGE_CPU_LOG_SUM_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_LOG_SUM_EXP_INL_H_
#undef RIDGE_CPU_LOG_SUM_EXP_INL_H_
#else
#define RIDGE_CPU_LOG_SUM_EXP_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// sum = the sum over i of exp(x[i] - highest), highest = max(x). If every x is -infinity,
// highest is 0 and sum is 0. A NaN in x gives a NaN sum.
struct ExpSum {
  float highest;
  double sum;

  double log_sum_exp() const { return highest + std::log(sum); }
};

// The row is processed in blocks that stay in L1 between their maximum and their sum. When the
// maximum rises, the sum so far is scaled down (Milakov and Gimelshein 2018).
template <typename T>
HWY_INLINE ExpSum exp_sum(const T* x, int64_t n) {
  constexpr int64_t kBlock = 2048;  // 8 KiB of fp32
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const F32 d;
  const V32 factor = hn::Set(d, kLog2E);
  const V32 none = hn::Set(d, kNone);
  float highest = kNone;
  double sum = 0.0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const T* block = x + begin;
    const int64_t count = HWY_MIN(kBlock, n - begin);
    const float raised = row_max(block, count);
    if (raised > highest) {
      if (sum != 0.0) sum *= std::exp(static_cast<double>(highest) - raised);
      highest = raised;
    }
    const V32 offset = hn::Set(d, highest == kNone ? 0.0f : highest);
    sum += sum_lanes(count, [&](auto part, int64_t i, V32& total) HWY_ATTR {
      V32 less = hn::Sub(load_or(part, block + i, none), offset);
      total = hn::Add(total, exp2_floored(hn::Mul(less, factor)));
    });
  }
  if (highest != kNone) return {highest, sum};
  return {0.0f, std::isnan(sum) ? sum : 0.0};
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
