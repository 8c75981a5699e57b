// SPDX-License-Identifier: Apache-2.0
// Widens the quants of a KV cache to bf16, which holds each of them exactly, two at a time and
// without a conversion instruction. The scales of their cells come later.
#pragma once

#include "backends/cuda/kernels/flash_attention/tensor/cached_tile.cuh"
#include "backends/kernels/kv_cache.h"

namespace ridge::backends::cuda::tensor {

template <typename C>
inline constexpr bool kIsQuant = sizeof(C) == 1;

__device__ __forceinline__ __nv_bfloat162 pair_of(uint32_t bits) {
  return *reinterpret_cast<const __nv_bfloat162*>(&bits);
}
__device__ __forceinline__ uint32_t bits_of(__nv_bfloat162 pair) {
  return *reinterpret_cast<const uint32_t*>(&pair);
}

// Widens bytes kLow and kHigh of a word to the lower and the upper half of the result. Under the
// exponent of 128, the lower seven bits of a quant make 128 + these bits, and its sign alone makes
// 128 or 256: the difference is the quant.
template <int kLow, int kHigh>
__device__ __forceinline__ uint32_t widen(uint32_t word, int8_t) {
  const uint32_t pair = __byte_perm(word, 0x43434343u, 0x4040 | kHigh << 8 | kLow);
  return bits_of(__hsub2(pair_of(pair & 0xff7fff7fu), pair_of(pair & 0xff80ff80u)));
}

// The exponent of bf16 has four more bits than that of fp8, whose bias is less by 120.
template <int kLow, int kHigh>
__device__ __forceinline__ uint32_t widen(uint32_t word, F8E4M3) {
  constexpr uint32_t kTwoTo120 = 0x7b807b80u;
  const uint32_t pair = __byte_perm(word, 0, kHigh << 12 | 0x0404 | kLow << 4);
  const uint32_t narrow = (pair & 0x80008000u) | (pair >> 4 & 0x07f007f0u);
  return bits_of(__hmul2(pair_of(narrow), pair_of(kTwoTo120)));
}

}  // namespace ridge::backends::cuda::tensor
