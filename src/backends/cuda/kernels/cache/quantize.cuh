// SPDX-License-Identifier: Apache-2.0
// Rounds heads to the quants of a KV cache, as ops/kv_cache.h defines them.
#pragma once

#include <cfloat>

#include "backends/cuda/kernels/row_group.cuh"
#include "backends/kernels/kv_cache.h"

namespace ridge::backends::cuda {

// The largest quant.
__device__ __forceinline__ float most_quant(int8_t) { return 127.0f; }
__device__ __forceinline__ float most_quant(F8E4M3) { return 448.0f; }

// A magnitude for the maximum over a head: infinite if the value is not finite.
__device__ __forceinline__ float magnitude(float value) {
  return isfinite(value) ? fabsf(value) : __builtin_huge_valf();
}

struct HeadScale {
  float scale;
  float inverse;  // 0: the quants are 0

  // From the head's largest magnitude.
  template <typename C>
  static __device__ __forceinline__ HeadScale of(float most, C type) {
    if (most == __builtin_huge_valf()) return {__int_as_float(0x7fffffff), 0.0f};
    const float scale = most / most_quant(type);
    return scale < FLT_MIN ? HeadScale{0.0f, 0.0f} : HeadScale{scale, 1.0f / scale};
  }

  __device__ __forceinline__ uint8_t bits_of(float value, int8_t) const {
    return inverse == 0.0f ? uint8_t{0} : static_cast<uint8_t>(__float2int_rn(value * inverse));
  }
  // Rounded to nearest even: the exponent of fp8 is that of fp32 without 120, and below 2^-6 its
  // numbers are multiples of 2^-9.
  __device__ __forceinline__ uint8_t bits_of(float value, F8E4M3) const {
    if (inverse == 0.0f) return 0;
    const float x = value * inverse;
    const uint32_t bits = __float_as_uint(x), sign = bits >> 24 & 0x80, own = bits & 0x7fffffff;
    const uint32_t normal = ((own + 0x7ffff + (own >> 20 & 1)) >> 20) - (120 << 3);
    const bool is_normal = fabsf(x) >= 0x1p-6f;
    const auto denormal = static_cast<uint32_t>(__float2int_rn(fabsf(x) * 512.0f));
    return static_cast<uint8_t>(sign | min(is_normal ? normal : denormal, 0x7eu));
  }
};

// Stores neighbouring elements; `to` is aligned to them.
template <typename C, int kCount>
__device__ __forceinline__ void store_quants(C* to,
                                             const float (&values)[kCount],
                                             const HeadScale& scale) {
  static_assert(kCount == 1 || kCount == 2 || kCount == 8);
  uint32_t words[2] = {};
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    words[i / 4] |= static_cast<uint32_t>(scale.bits_of(values[i], C{})) << i % 4 * 8;
  if constexpr (kCount == 8)
    *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  else if constexpr (kCount == 2)
    *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(words[0]);
  else
    *reinterpret_cast<uint8_t*>(to) = static_cast<uint8_t>(words[0]);
}

}  // namespace ridge::backends::cuda
