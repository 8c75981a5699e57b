// SPDX-License-Identifier: Apache-2.0
// Per-target: the sum of a row's exponentials in one pass over it, for softmax and the losses on top of it.
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

// sum = the sum over i of exp(scale x[i] - shift), shift = scale max(x) (0 if every x is -infinity: then sum is
// 0). A NaN in x gives a NaN sum.
struct ExpSum {
  float shift;
  double sum;

  double log_sum_exp() const { return shift + std::log(sum); }
};

// The greatest of n elements, NaN left out; -infinity if there is none.
template <typename T>
HWY_INLINE float row_max(const T* x, int64_t n) {
  const V32 none = hn::Set(F32(), -std::numeric_limits<float>::infinity());
  const V32 highest = reduce_lanes(
      n, none,
      [&](auto part, int64_t i, V32& best) HWY_ATTR {
        best = hn::Max(load_or(part, x + i, none), best);  // x86: the second operand if one is NaN
      },
      [](V32 a, V32 b) HWY_ATTR { return hn::Max(a, b); });
  return hn::GetLane(hn::MaxOfLanes(F32(), highest));
}

// The row is taken in blocks that stay in L1 between their maximum and their sum; when the maximum rises, what was
// summed so far is scaled down (Milakov and Gimelshein 2018). scale > 0.
template <typename T>
HWY_INLINE ExpSum exp_sum(const T* x, int64_t n, float scale) {
  constexpr int64_t kBlock = 2048;  // 8 KiB of fp32
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const F32 d;
  const V32 factor = hn::Set(d, scale);
  const V32 none = hn::Set(d, kNone);
  float shift = kNone;
  double sum = 0.0;
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const T* block = x + begin;
    const int64_t count = HWY_MIN(kBlock, n - begin);
    const float raised = row_max(block, count) * scale;
    if (raised > shift) {
      sum *= std::exp(static_cast<double>(shift) - raised);
      shift = raised;
    }
    const V32 offset = hn::Set(d, shift == kNone ? 0.0f : shift);
    sum += sum_lanes(count, [&](auto part, int64_t i, V32& total) HWY_ATTR {
      V32 v = load_or(part, block + i, none);
      total = hn::Add(total, exp_of_negative(hn::MulSub(v, factor, offset)));
    });
  }
  return {shift == kNone ? 0.0f : shift, sum};
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
