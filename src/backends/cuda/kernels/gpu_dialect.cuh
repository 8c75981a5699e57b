// SPDX-License-Identifier: Apache-2.0
// Device code that differs between CUDA and HIP: shuffles, exponentials, bf16 rounding. Kernels
// that include it are portable; files for Hopper only have "hopper" or "wgmma" in their name. The
// host side is in gpu_runtime.h.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"

#ifdef __HIP__
#define __grid_constant__
#else
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#endif

namespace ridge::backends::cuda {

// Kernels work in groups of 32 lanes: a warp on CUDA, half a wavefront on CDNA (shuffles stay
// inside it, since lane masks are below 32).
inline constexpr int kLanes = 32;

#ifdef __HIP__
template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int mask) {
  return __shfl_xor(value, mask);
}
// Returns the value of the lane `step` below, among the caller's 32; lanes below `step` get their
// own value.
template <typename T>
__device__ __forceinline__ T shuffle_up(T value, int step) {
  return __shfl_up(value, step, kLanes);
}
__device__ __forceinline__ float exp2_hardware(float x) { return exp2f(x); }
__device__ __forceinline__ void gather_lanes() {}
template <typename T>
__device__ __forceinline__ T __ldcg(const T* p) {
  return *p;
}
template <typename T>
__device__ __forceinline__ void __stcg(T* p, const T& value) {
  *p = value;
}
// Two floats rounded to nearest even, `low` in the low half.
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  auto round = [](float value) -> uint32_t {
    const uint32_t bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (bits >> 16) | 0x40u;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  };
  return round(low) | (round(high) << 16);
}
__device__ __forceinline__ uint32_t max_bf16_pairs(uint32_t a, uint32_t b) {
  const float low = fmaxf(__uint_as_float(a << 16), __uint_as_float(b << 16));
  const float high = fmaxf(__uint_as_float(a & 0xffff0000u), __uint_as_float(b & 0xffff0000u));
  return (__float_as_uint(low) >> 16) | (__float_as_uint(high) & 0xffff0000u);
}
#else
template <typename T>
__device__ __forceinline__ T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(0xffffffffu, value, mask);
}
template <typename T>
__device__ __forceinline__ T shuffle_up(T value, int step) {
  return __shfl_up_sync(0xffffffffu, value, step);
}
// Reconverges lanes that diverged: shuffles among diverged lanes are slow.
__device__ __forceinline__ void gather_lanes() { __syncwarp(); }
__device__ __forceinline__ float exp2_hardware(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}
// The larger of each pair of bf16; NaN is ignored.
__device__ __forceinline__ uint32_t max_bf16_pairs(uint32_t a, uint32_t b) {
  const __nv_bfloat162 pair = __hmax2(reinterpret_cast<const __nv_bfloat162&>(a),
                                      reinterpret_cast<const __nv_bfloat162&>(b));
  return reinterpret_cast<const uint32_t&>(pair);
}
#endif

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(uint16_t bits) {
  return __uint_as_float(static_cast<uint32_t>(bits) << 16);
}

template <typename T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (sizeof(T) == 2) {
    return static_cast<uint16_t>(pack_bf16(value, 0.0f));
  } else {
    return value;
  }
}

// exp(x) for results stored as T. bf16 keeps 8 bits, so the error of the hardware's exp2, |x| 2^-24
// and 2 ulp, is too small to matter.
template <typename T>
__device__ __forceinline__ float exp_for(float x) {
  if constexpr (sizeof(T) == 2) {
    return __expf(x);
  } else {
    return expf(x);
  }
}

// 2^x with the same precision.
template <typename T>
__device__ __forceinline__ float exp2_for(float x) {
  if constexpr (sizeof(T) == 2) {
    return exp2_hardware(x);
  } else {
    return exp2f(x);
  }
}

// 1 / (1 + exp(-u)) with the same precision.
template <typename T>
__device__ __forceinline__ float sigmoid_for(float u) {
  if constexpr (sizeof(T) == 2) {
    return __fdividef(1.0f, 1.0f + __expf(-u));
  } else {
    return 1.0f / (1.0f + expf(-u));
  }
}

}  // namespace ridge::backends::cuda
