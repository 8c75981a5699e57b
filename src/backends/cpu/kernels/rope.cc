// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: the rotation, and the table of its angles in double.
#include "backends/cpu/kernels/kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/rope.cc"
#include "backends/cpu/kernels/simd_targets.h"

#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "backends/cpu/kernels/vector_io-inl.h"
#include "base/error.h"

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// The angles of a token's pairs; a sign of -1 rotates back.
struct Angles {
  const float* cos;
  const float* sin;
  float sign;
};

// Rotates (a, b), one vector of pairs from pair i on, by their angles.
template <typename Part>
HWY_INLINE void rotate(Part part, const Angles& angles, int64_t i, V32& a, V32& b) {
  const V32 cos = load(part, angles.cos + i);
  const V32 sin = hn::Mul(hn::Set(F32(), angles.sign), load(part, angles.sin + i));
  const V32 rotated = hn::NegMulAdd(b, sin, hn::Mul(a, cos));
  b = hn::MulAdd(a, sin, hn::Mul(b, cos));
  a = rotated;
}

HWY_INLINE void load_pairs(const float* from, V32& a, V32& b) {
  hn::LoadInterleaved2(F32(), from, a, b);
}
// A pair of bf16 is one 32-bit lane, its first element in the low half.
HWY_INLINE void load_pairs(const uint16_t* from, V32& a, V32& b) {
  const U32 du;
  auto both = hn::LoadU(du, reinterpret_cast<const uint32_t*>(from));
  a = hn::BitCast(F32(), hn::ShiftLeft<16>(both));
  b = hn::BitCast(F32(), hn::And(both, hn::Set(du, 0xffff0000u)));
}
HWY_INLINE void store_pairs(V32 a, V32 b, float* to, bool) {
  hn::StoreInterleaved2(a, b, F32(), to);
}
HWY_INLINE void store_pairs(V32 a, V32 b, uint16_t* to, bool streamed) {
  const U32 du;
  auto low = hn::ShiftRight<16>(round_to_bf16_bits(a));
  auto both = hn::Or(low, hn::And(round_to_bf16_bits(b), hn::Set(du, 0xffff0000u)));
  if (streamed) {
    hn::Stream(both, du, reinterpret_cast<uint32_t*>(to));
  } else {
    hn::StoreU(both, du, reinterpret_cast<uint32_t*>(to));
  }
}

// The same of fp16.
HWY_INLINE void load_pairs(const Float16* from, V32& a, V32& b) {
  const U32 du;
  auto both = hn::LoadU(du, reinterpret_cast<const uint32_t*>(from));
  a = widen_f16(hn::TruncateTo(U16Half(), hn::And(both, hn::Set(du, 0xffffu))));
  b = widen_f16(hn::TruncateTo(U16Half(), hn::ShiftRight<16>(both)));
}
HWY_INLINE void store_pairs(V32 a, V32 b, Float16* to, bool streamed) {
  const U32 du;
  auto low = hn::PromoteTo(du, narrow_f16(a));
  auto both = hn::Or(low, hn::ShiftLeft<16>(hn::PromoteTo(du, narrow_f16(b))));
  if (streamed) {
    hn::Stream(both, du, reinterpret_cast<uint32_t*>(to));
  } else {
    hn::StoreU(both, du, reinterpret_cast<uint32_t*>(to));
  }
}

template <typename T>
HWY_INLINE void rotate_interleaved(const T* x,
                                   const Angles& angles,
                                   int64_t pairs,
                                   T* y,
                                   bool streamed) {
  const int64_t step = lanes();
  int64_t i = 0;
  V32 a, b;
  for (; i + step <= pairs; i += step) {
    load_pairs(x + 2 * i, a, b);
    rotate(Whole(), angles, i, a, b);
    store_pairs(a, b, y + 2 * i, streamed);
  }
  if (i == pairs) return;
  HWY_ALIGN T buffer[2 * HWY_MAX_BYTES / sizeof(float)] = {};
  const Partial part{pairs - i};
  const size_t bytes = 2 * static_cast<size_t>(part.count) * sizeof(T);
  std::memcpy(buffer, x + 2 * i, bytes);
  load_pairs(buffer, a, b);
  rotate(part, angles, i, a, b);
  store_pairs(a, b, buffer, false);
  std::memcpy(y + 2 * i, buffer, bytes);
}

template <typename T>
HWY_INLINE void rotate_halves(const T* x,
                              const Angles& angles,
                              int64_t pairs,
                              T* y,
                              bool streamed) {
  for_lanes(pairs, [&](auto part, int64_t i) HWY_ATTR {
    V32 a = load(part, x + i);
    V32 b = load(part, x + pairs + i);
    rotate(part, angles, i, a, b);
    store(part, a, y + i, streamed);
    store(part, b, y + pairs + i, streamed);
  });
}

// Mapping: tokens in static ranges over threads; a token's cos and sin stay in L1 for its heads.
// Bound: memory, 2 N heads E sizeof(T) + N E 4.
template <typename T>
HWY_INLINE void rope_tokens(const Rope<T>& call, Range range) {
  const int64_t pairs = call.head_size / 2;
  const bool in_place = call.x.data == call.y.data;
  const bool large =
      !in_place && bytes_of<T>(call.tokens * call.heads * call.head_size) >= kStreamBytes;
  const int64_t touched = in_place ? call.rotated_heads : call.heads;
  for (int64_t n = range.begin; n < range.end; ++n) {
    const Angles angles{call.cos + n * pairs, call.sin + n * pairs, call.inverse ? -1.0f : 1.0f};
    for (int64_t h = 0; h < touched; ++h) {
      const T* x = call.x.head(n, h);
      T* y = call.y.head(n, h);
      const bool streamed = large && is_aligned(y) && is_aligned(y + pairs);
      if (h >= call.rotated_heads) {
        for_lanes(call.head_size, [&](auto part, int64_t i) HWY_ATTR {
          store(part, load(part, x + i), y + i, streamed);
        });
      } else if (call.pairs == RopePairs::kHalves) {
        rotate_halves(x, angles, pairs, y, streamed);
      } else {
        rotate_interleaved(x, angles, pairs, y, streamed);
      }
    }
  }
  if (large) hwy::FlushStream();
}
RIDGE_TARGETS(RIDGE_FLOATS, rope_tokens, Rope, Range)

using F64 = hn::ScalableTag<double>;

// An angle less the nearest multiple of 2 pi; Highway's Sin and Cos are exact only below 39000.
HWY_INLINE hn::Vec<F64> within_a_turn(hn::Vec<F64> angle) {
  const F64 d;
  constexpr double kTurn = 2 * std::numbers::pi,
                   kRest = 2.4492935982947064e-16;  // their sum is 2 pi
  const auto turns = hn::Round(hn::Mul(angle, hn::Set(d, 1 / kTurn)));
  return hn::NegMulAdd(turns, hn::Set(d, kRest), hn::NegMulAdd(turns, hn::Set(d, kTurn), angle));
}

// Stores up to a vector of doubles as floats.
HWY_INLINE void store_floats(hn::Vec<F64> v, int64_t count, float* to) {
  const hn::Rebind<float, F64> floats;
  if (count >= static_cast<int64_t>(hn::Lanes(F64()))) {
    hn::StoreU(hn::DemoteTo(floats, v), floats, to);
  } else {
    HWY_ALIGN float buffer[HWY_MAX_BYTES / sizeof(double)];
    hn::StoreU(hn::DemoteTo(floats, v), floats, buffer);
    std::memcpy(to, buffer, static_cast<size_t>(count) * sizeof(float));
  }
}

// `steps` are the frequencies of the pairs, padded to a whole vector.
void fill_angles(const RopeTable& call, const double* steps, Range tokens) {
  const F64 d;
  const int64_t pairs = call.head_size / 2, lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t n = tokens.begin; n < tokens.end; ++n) {
    const auto position = hn::Set(d, std::max(0, call.positions[n]));
    for (int64_t i = 0; i < pairs; i += lanes) {
      const auto angle = within_a_turn(hn::Mul(position, hn::LoadU(d, steps + i)));
      store_floats(hn::Cos(d, angle), pairs - i, call.cos + n * pairs + i);
      store_floats(hn::Sin(d, angle), pairs - i, call.sin + n * pairs + i);
    }
  }
}

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

// The angle, in radians, by which pair i rotates from one position to the next.
double frequency(const RopeTable& call, int64_t i) {
  const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(call.head_size);
  const double plain = std::pow(call.theta, exponent);
  if (call.scaling == RopeScaling::kNone) return plain;
  if (call.scaling == RopeScaling::kLinear) return plain / call.factor;
  const double rotations =
      call.original_context * plain / (2.0 * std::numbers::pi);  // within the original context
  if (rotations < call.low_frequency_factor) return plain / call.factor;
  if (rotations > call.high_frequency_factor) return plain;
  const double kept = (rotations - call.low_frequency_factor) /
                      (call.high_frequency_factor - call.low_frequency_factor);
  return (1.0 - kept) * plain / call.factor + kept * plain;
}

}  // namespace

RIDGE_DISPATCH(RIDGE_FLOATS, run_range, rope_tokens, Rope, Range)
template <typename T>
void rope(const Rope<T>& call) {
  RIDGE_CHECK(call.head_size % 2 == 0, "[rope] expected an even head size, got {}", call.head_size);
  const int64_t bytes = bytes_of<T>(2 * call.tokens * call.heads * call.head_size);
  for_each_range(call.tokens, parts_for(bytes), [&](Range range) { run_range(call, range); });
}
RIDGE_INSTANCES(RIDGE_FLOATS, void, rope, Rope)

HWY_EXPORT(fill_angles);

RopeAngles::RopeAngles(const RopeTable& call) : call_(call) {
  constexpr size_t kMostLanes = 8;  // doubles of AVX-512; here HWY_MAX_BYTES is that of scalar code
  const int64_t pairs = call.head_size / 2;
  for (int64_t i = 0; i < pairs; ++i) steps_.push_back(frequency(call, i));
  steps_.resize((steps_.size() + kMostLanes - 1) / kMostLanes * kMostLanes);
}

// Mapping: tokens in static ranges over threads. Bound: the arithmetic of cos and sin in double,
// about 2 ns a pair with AVX-512; all heads and layers of a step share them.
void RopeAngles::fill() const {
  constexpr int64_t kPairBytes = 64;  // memory moves so many in 2 ns
  const int64_t bytes = call_.tokens * call_.head_size / 2 * kPairBytes;
  for_each_range(call_.tokens, parts_for(bytes), [&](Range range) {
    HWY_DYNAMIC_DISPATCH(fill_angles)(call_, steps_.data(), range);
  });
}

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
