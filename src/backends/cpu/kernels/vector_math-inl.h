// SPDX-License-Identifier: Apache-2.0
// Per-target: exp, log, sigmoid and tanh on float vectors. NaN yields NaN. The polynomials are
// minimax fits computed with Remez's algorithm for this file. Results are not correctly rounded;
// the bounds below are tested.
#include <hwy/highway.h>

#include <limits>

#include "backends/cpu/kernels/vector_io-inl.h"

#if defined(RIDGE_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RIDGE_CPU_VECTOR_MATH_INL_H_
#undef RIDGE_CPU_VECTOR_MATH_INL_H_
#else
#define RIDGE_CPU_VECTOR_MATH_INL_H_
#endif

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

inline constexpr float kLog2E = 1.44269504f;

// 2^r for |r| <= 1/2, with a relative error of at most 2.6e-9 before rounding.
HWY_INLINE V32 exp2_polynomial(V32 r) {
  const F32 d;
  V32 p = hn::MulAdd(hn::Set(d, 0.000155951034f), r, hn::Set(d, 0.00134067968f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.00961769107f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.0555031013f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.240226528f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.693147215f));
  return hn::MulAdd(p, r, hn::Set(d, 1.0f));
}

// Adding this constant, 1.5 * 2^23 + 127, rounds to an integer that then is in the low mantissa
// bits; the 127 makes them the exponent field of two to the power of that integer.
inline constexpr float kRoundToExponent = 12582912.0f + 127.0f;

// exp(kSign x) = 2^n 2^r with n + r = kSign x log2(e), |r| <= 1/2, for kSign x in [-87.3, 88]:
// relative error within 2.5e-7 + 1.4e-8 |x| (the second term is from rounding log2(e)), so below
// 1.5e-6. NaN stays NaN.
template <int kSign = 1>
HWY_INLINE V32 exp_bounded(V32 x) {
  const F32 d;
  const V32 log2_e = hn::Set(d, kSign * kLog2E);
  const V32 magic = hn::Set(d, kRoundToExponent);
  const V32 shifted = hn::MulAdd(x, log2_e, magic);
  const V32 n = hn::Sub(shifted, magic);
  const V32 two_to_n = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(U32(), shifted)));
#if HWY_TARGET == HWY_SCALAR
  // Without a fused multiply-add, x log2(e) is rounded before n cancels most of it, so n ln 2 is
  // subtracted in two steps, high and low bits.
  const V32 signed_x = hn::Mul(x, hn::Set(d, static_cast<float>(kSign)));
  const V32 less_high = hn::Sub(signed_x, hn::Mul(n, hn::Set(d, 0.693145752f)));
  const V32 r =
      hn::Mul(hn::Sub(less_high, hn::Mul(n, hn::Set(d, 1.42860677e-6f))), hn::Set(d, kLog2E));
#else
  const V32 r = hn::MulSub(x, log2_e, n);
#endif
  return hn::Mul(exp2_polynomial(r), two_to_n);
}

// exp(x) for any x: 0 below -87.3, where the result would be denormal, and infinity from 88.37 on
// (the last third of a unit before the true overflow is lost).
HWY_INLINE V32 exp(V32 x) {
  const F32 d;
  const V32 infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V32 y = hn::IfThenElse(hn::Gt(x, hn::Set(d, 88.37f)), infinity, exp_bounded(x));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -87.3f)), hn::Zero(d), y);
}

// 2^n and 2^r for z = n + r in [-126, 127], |r| <= 1/2.
struct Power2 {
  V32 of_integer, of_rest;
};
HWY_INLINE Power2 power2(V32 z) {
  const F32 d;
  const V32 magic = hn::Set(d, kRoundToExponent);
  const V32 shifted = hn::Add(z, magic);
  const V32 r = hn::Sub(z, hn::Sub(shifted, magic));
  return {hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(U32(), shifted))), exp2_polynomial(r)};
}

// 2^z for z in [-126, 127], within 2e-7 relative. It takes fewer multiplications than exp, which
// multiplies by log2(e) itself. A caller that has a factor anyway passes x log2(e) and accepts the
// rounding of that product (6e-8 |x|).
HWY_INLINE V32 exp2_bounded(V32 z) {
  const Power2 power = power2(z);
  return hn::Mul(power.of_rest, power.of_integer);
}

// 2^z for z <= 0 and a little above: 0 below -126, where the result would be denormal.
HWY_INLINE V32 exp2_of_negative(V32 z) {
  const F32 d;
  return hn::IfThenElse(hn::Lt(z, hn::Set(d, -126.0f)), hn::Zero(d), exp2_bounded(z));
}

// The same for terms of a sum that is at least about 1, where 2^-126 is negligible.
HWY_INLINE V32 exp2_floored(V32 z) {
#if HWY_TARGET == HWY_SCALAR
  return exp2_of_negative(z);  // in scalar code Max would lose a NaN
#else
  return exp2_bounded(hn::Max(hn::Set(F32(), -126.0f), z));
#endif
}

// log(x) for normal x > 0, within 1.3e-7 relative; -infinity for 0. x = 2^n m with m from sqrt(1/2)
// to sqrt(2).
HWY_INLINE V32 log_of_positive(V32 x) {
  const F32 d;
  const hn::RebindToSigned<F32> di;
  const auto bits = hn::BitCast(di, x);
  const auto n = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const V32 f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(n))), hn::Set(d, 1.0f));
  V32 p = hn::MulAdd(hn::Set(d, -0.0763449669f), f, hn::Set(d, 0.127615765f));
  p = hn::MulAdd(p, f, hn::Set(d, -0.131601826f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.142017573f));
  p = hn::MulAdd(p, f, hn::Set(d, -0.16623357f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.200012267f));
  p = hn::MulAdd(p, f, hn::Set(d, -0.250008196f));
  p = hn::MulAdd(p, f, hn::Set(d, 0.333333313f));
  const V32 f2 = hn::Mul(f, f);
  const V32 log_m = hn::MulAdd(hn::Mul(p, f), f2, hn::NegMulAdd(hn::Set(d, 0.5f), f2, f));
  const V32 y = hn::MulAdd(hn::ConvertTo(d, n), hn::Set(d, 0.693147182f), log_m);
  // Less infinity, 0 is -infinity, and NaN stays NaN.
  const V32 infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), y, hn::Sub(x, infinity));
}

// 1 / x for x from 1 to 2^126, beyond which an estimate may be 0. On Zen 4 a division takes ten
// cycles a vector, the 12-bit estimate and one Newton step three, with an error of 1e-7.
HWY_INLINE V32 reciprocal(V32 x) {
  const V32 estimate = hn::ApproximateReciprocal(x);
  return hn::Mul(estimate, hn::NegMulAdd(x, estimate, hn::Set(F32(), 2.0f)));
}

// 1 / (1 + exp(-x)), with the relative error of exp; below -87.3 it stays at 1.2e-38, its value at
// -87.3.
HWY_INLINE V32 sigmoid(V32 x) {
  const F32 d;
  const V32 one = hn::Set(d, 1.0f);
#if HWY_TARGET == HWY_SCALAR
  return hn::Div(one, hn::Add(one, exp(hn::Neg(x))));
#else
  // With the operands in this order, x86's max and min pass on a NaN in x.
  const V32 limit = hn::Set(d, 87.3f);
  const V32 bounded = hn::Min(limit, hn::Max(hn::Neg(limit), x));
  return reciprocal(hn::Add(one, exp_bounded<-1>(bounded)));
#endif
}

// 1 / (1 + 2^z), as exp2_bounded is to exp: sigmoid(x) for z = -x log2(e). From z = 125 on it stays
// at 2^-125.
HWY_INLINE V32 sigmoid_of_power(V32 z) {
  const F32 d;
  const V32 one = hn::Set(d, 1.0f);
#if HWY_TARGET == HWY_SCALAR
  return hn::Div(one, hn::Add(one, exp(hn::Mul(z, hn::Set(d, 0.693147181f)))));
#else
  const V32 limit = hn::Set(d, 125.0f);
  const Power2 power = power2(hn::Min(limit, hn::Max(hn::Neg(limit), z)));
  return reciprocal(hn::MulAdd(power.of_rest, power.of_integer, one));
#endif
}

// tanh(x) within 5e-7 relative: an odd polynomial below 0.625, where 1 - 2 / (exp(2|x|) + 1) would
// cancel.
HWY_INLINE V32 tanh(V32 x) {
  const F32 d;
  const V32 one = hn::Set(d, 1.0f);
  const V32 x2 = hn::Mul(x, x);
  V32 p = hn::MulAdd(hn::Set(d, -0.00570498669f), x2, hn::Set(d, 0.0206390869f));
  p = hn::MulAdd(p, x2, hn::Set(d, -0.053739715f));
  p = hn::MulAdd(p, x2, hn::Set(d, 0.133314422f));
  p = hn::MulAdd(p, x2, hn::Set(d, -0.333332819f));
  const V32 small = hn::MulAdd(hn::Mul(p, x2), x, x);
  const V32 size = hn::Abs(x);
  const V32 large =
      hn::NegMulAdd(hn::Set(d, 2.0f), hn::Div(one, hn::Add(exp(hn::Add(size, size)), one)), one);
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), small, hn::CopySign(large, x));
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
