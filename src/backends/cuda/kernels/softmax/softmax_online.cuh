// SPDX-License-Identifier: Apache-2.0
// The maximum of a row and the sum of its exponentials in one pass (Milakov and Gimelshein 2018),
// shared by softmax, log_softmax and cross-entropy.
#pragma once

#include "backends/cuda/kernels/row_group.cuh"

namespace ridge::backends::cuda {

inline constexpr float kLog2OfE = 1.4426950408889634f;
inline constexpr float kMinusInfinity = -__builtin_huge_valf();

// Avoids infinity minus infinity while all values are -infinity.
__device__ __forceinline__ float exponent_base(float top) {
  return top == kMinusInfinity ? 0.0f : top;
}

// exp(scale (x - base)), where `to_log2` is scale log2(e). In fp32 the difference is computed
// first: it is exact near the base, so the largest term is exactly 1. For bf16 one fused
// multiply-add is enough; its error is that of rounding base to_log2.
template <typename T>
__device__ __forceinline__ float exp_difference(float x, float base, float to_log2) {
  if constexpr (sizeof(T) == 2) {
    return exp2_for<T>(fmaf(x, to_log2, -base * to_log2));
  } else {
    return exp2_for<T>((x - base) * to_log2);
  }
}

// The maximum `top` so far, and the sum of exp(scale (x - top)).
struct OnlineSum {
  float top = kMinusInfinity;
  float sum = 0.0f;

  template <typename T, int kCount>
  __device__ __forceinline__ void add(const float (&x)[kCount], float to_log2) {
    float next = top;
#pragma unroll
    for (int i = 0; i < kCount; ++i) next = fmaxf(next, x[i]);
    const float base = exponent_base(next);
    // Exactly 1 if the maximum does not change; otherwise the rounding error of the factor would be
    // applied at every step.
    sum *= exp_difference<float>(top, base, to_log2);
    top = next;
    float terms = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount; ++i) terms += exp_difference<T>(x[i], base, to_log2);
    sum += terms;
  }

  // The same for packed vectors, each unpacked only when it is added, because a thread with loads
  // in flight has no registers to spare.
  template <typename T, int kCount, int kVectors>
  __device__ __forceinline__ void add(const Packed<T, kCount> (&x)[kVectors], float to_log2) {
    add(x, to_log2, fmaxf(top, max_element(x)));
  }

  // Like above, with `next` given: neither an element of the vectors nor the previous maximum may
  // be above it.
  template <typename T, int kCount, int kVectors>
  __device__ __forceinline__ void add(const Packed<T, kCount> (&x)[kVectors],
                                      float to_log2,
                                      float next) {
    const float base = exponent_base(next);
    sum *= exp_difference<float>(top, base, to_log2);
    top = next;
#pragma unroll
    for (int k = 0; k < kVectors; ++k) {
      float v[kCount];
      unpack(x[k], v);
      float terms = 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; ++i) terms += exp_difference<T>(v[i], base, to_log2);
      sum += terms;
    }
  }

  // Reduces over the group; called by every thread. Uses two of the group's reductions.
  template <typename Group>
  __device__ __forceinline__ OnlineSum reduce(float to_log2, ReduceScratch& scratch) const {
    OnlineSum all;
    all.top = Group::reduce(top, Max{}, scratch, 0);
    const float part = sum * exp_difference<float>(top, exponent_base(all.top), to_log2);
    all.sum = Group::reduce(part, Sum{}, scratch, 1);
    return all;
  }
};

// A thread's part of row x: vectors of kVector columns, four in flight at a time. kVector
// divides the number of columns.
template <typename Group, int kGroup, int kVector, typename T>
__device__ __forceinline__ OnlineSum online_sum(const T* x, int64_t columns, float to_log2) {
  constexpr int kRound = 4;
  OnlineSum part;
  const int64_t vectors = columns / kVector;
  for (int64_t first = Group::lane(); first < vectors; first += kRound * kGroup) {
    Packed<T, kVector> raw[kRound];
#pragma unroll
    for (int k = 0; k < kRound; ++k)
      if (first + k * kGroup < vectors)
        raw[k] = load_packed<kVector>(x + (first + k * kGroup) * kVector);
    float v[kRound * kVector];
#pragma unroll
    for (int k = 0; k < kRound; ++k) {
      float one[kVector];
      unpack(raw[k], one);
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        v[k * kVector + i] = first + k * kGroup < vectors ? one[i] : kMinusInfinity;
    }
    part.template add<T>(v, to_log2);
  }
  return part;
}

}  // namespace ridge::backends::cuda
