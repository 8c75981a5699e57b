// SPDX-License-Identifier: Apache-2.0
// Gated activations. Both are x sigmoid(u): SiLU with u = x, and the tanh form of GELU with
// u = 2 sqrt(2/pi) (x + 0.044715 x^3), since (1 + tanh(u / 2)) / 2 = sigmoid(u).
#include "backends/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/pointwise/glu.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "backends/cpu/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

inline constexpr float kGeluLinear = 1.5957691216057308f;  // 2 sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.044715f;

struct Silu {
  static HWY_INLINE V32 power(V32 x) { return hn::Mul(x, hn::Set(F32(), -kLog2E)); }
  static HWY_INLINE V32 slope(V32) { return hn::Set(F32(), 1.0f); }  // du / dx
};

struct GeluTanh {
  static HWY_INLINE V32 power(V32 x) {
    constexpr float kFactor = -kGeluLinear * kLog2E;
    const F32 d;
    const V32 square = hn::Mul(x, x);
    return hn::Mul(x, hn::MulAdd(square, hn::Set(d, kFactor * kGeluCubic), hn::Set(d, kFactor)));
  }
  static HWY_INLINE V32 slope(V32 x) {
    const F32 d;
    const V32 square = hn::Mul(x, x);
    return hn::MulAdd(square, hn::Set(d, 3.0f * kGeluLinear * kGeluCubic), hn::Set(d, kGeluLinear));
  }
};

// sigmoid(u) = 1 / (1 + 2^power).
template <typename Activation>
HWY_INLINE V32 sigmoid_at(V32 x) {
  return sigmoid_of_power(Activation::power(x));
}

// act(gate) up.
template <typename Activation, typename Part, typename T>
HWY_INLINE V32 gated(Part part, const T* gate, const T* up) {
  const V32 x = load(part, gate);
  return hn::Mul(hn::Mul(x, sigmoid_at<Activation>(x)), load(part, up));
}

// A block in cache. Bound for GELU: 14 multiplications and additions a vector on their ports.
template <typename Activation>
HWY_INLINE void glu_block(const Glu<float>& call) {
  for (int64_t n = 0; n < call.tokens; ++n) {
    const float* gate = call.gate[n];
    const float* up = call.up[n];
    float* y = call.y[n];
    for_lanes(call.width, [&](auto part, int64_t i) HWY_ATTR {
      store(part, gated<Activation>(part, gate + i, up + i), y + i);
    });
  }
}

// Mapping: rows in static ranges over threads, one pass. Bound: memory, 3 N F sizeof(T). The exp
// and the division take about as long as one thread's traffic of fp32, so it takes two threads to
// reach the bound.
template <typename Activation, typename T>
HWY_INLINE void glu_rows(const Glu<T>& call, Range range) {
  const bool large = bytes_of<T>(call.tokens * call.width) >= kStreamBytes;
  for (int64_t n = range.begin; n < range.end; ++n) {
    const T* gate = call.gate[n];
    const T* up = call.up[n];
    T* y = call.y[n];
    const bool streamed = large && y != gate && y != up && is_aligned(y);
    const auto next = rows_after(n, range, call.tokens, call.width, call.gate, call.up);
    for_lanes(call.width, [&](auto part, int64_t i) HWY_ATTR {
      next.prefetch(i);
      store(part, gated<Activation>(part, gate + i, up + i), y + i, streamed);
    });
  }
  if (large) hwy::FlushStream();
}

// With s = sigmoid(u): act = x s, act' = s + x s (1 - s) du/dx. Mapping: as glu_rows. Bound:
// memory, 5 N F sizeof(T).
template <typename Activation, typename T>
HWY_INLINE void glu_backward_rows(const GluBackward<T>& call, Range range) {
  const V32 one = hn::Set(F32(), 1.0f);
  const bool large = bytes_of<T>(call.tokens * call.width) >= kStreamBytes;
  for (int64_t n = range.begin; n < range.end; ++n) {
    const T* dy = call.dy[n];
    const T* gate = call.gate[n];
    const T* up = call.up[n];
    T* d_gate = call.d_gate[n];
    T* d_up = call.d_up[n];
    const bool apart =
        d_gate != dy && d_gate != gate && d_gate != up && d_up != dy && d_up != gate && d_up != up;
    const bool streamed = large && apart && is_aligned(d_gate) && is_aligned(d_up);
    const auto next = rows_after(n, range, call.tokens, call.width, call.dy, call.gate, call.up);
    for_lanes(call.width, [&](auto part, int64_t i) HWY_ATTR {
      next.prefetch(i);
      V32 x = load(part, gate + i);
      V32 given = load(part, dy + i);
      V32 s = sigmoid_at<Activation>(x);
      V32 active = hn::Mul(x, s);
      V32 bend = hn::Mul(hn::Sub(one, s), Activation::slope(x));
      V32 derivative = hn::MulAdd(active, bend, s);
      V32 into_gate = hn::Mul(hn::Mul(given, load(part, up + i)), derivative);
      store(part, into_gate, d_gate + i, streamed);
      store(part, hn::Mul(given, active), d_up + i, streamed);
    });
  }
  if (large) hwy::FlushStream();
}

// Calls body(Silu or GeluTanh).
template <typename Body>
HWY_INLINE void with_activation(GluActivation activation, const Body& body) {
  if (activation == GluActivation::kSilu) {
    body(Silu());
  } else {
    body(GeluTanh());
  }
}

template <typename T>
HWY_INLINE void glu_any(const Glu<T>& call, Range range) {
  with_activation(call.activation,
                  [&](auto act) HWY_ATTR { glu_rows<decltype(act)>(call, range); });
}
RIDGE_TARGETS(RIDGE_FLOATS, glu_any, Glu, Range)

void glu_of_block(const Glu<float>& call) {
  with_activation(call.activation, [&](auto act) HWY_ATTR { glu_block<decltype(act)>(call); });
}

template <typename T>
HWY_INLINE void glu_backward_any(const GluBackward<T>& call, Range range) {
  with_activation(call.activation,
                  [&](auto act) HWY_ATTR { glu_backward_rows<decltype(act)>(call, range); });
}
RIDGE_TARGETS(RIDGE_FLOATS, glu_backward_any, GluBackward, Range)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

RIDGE_ROWS_KERNEL(glu, glu_any, Glu, tokens, 3 * call.width)
HWY_EXPORT(glu_of_block);
void glu_on_thread(const Glu<float>& call) { HWY_DYNAMIC_DISPATCH(glu_of_block)(call); }

RIDGE_ROWS_KERNEL(glu_backward, glu_backward_any, GluBackward, tokens, 5 * call.width)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
