// SPDX-License-Identifier: Apache-2.0
// Per-target: the magnitude of numbers that are to be rounded to quants.
#include <hwy/highway.h>

#include "backends/cpu/kernels/vector_io-inl.h"

#if defined(RIDGE_CPU_MAGNITUDE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_MAGNITUDE_INL_H_
#undef RIDGE_CPU_MAGNITUDE_INL_H_
#else
#define RIDGE_CPU_MAGNITUDE_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

struct Magnitude {
  V32 top;
  V32 zeros;  // but NaN in a lane if one of its numbers is not finite

  HWY_INLINE Magnitude() : top(hn::Zero(F32())), zeros(top) {}
  HWY_INLINE void add(V32 x) {
    top = hn::Max(top, hn::Abs(x));
    zeros = hn::MulAdd(x, hn::Zero(F32()), zeros);
  }
  HWY_INLINE float largest() const { return hn::GetLane(hn::MaxOfLanes(F32(), top)); }
  HWY_INLINE bool is_finite() const { return hn::GetLane(hn::SumOfLanes(F32(), zeros)) == 0; }
};

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
