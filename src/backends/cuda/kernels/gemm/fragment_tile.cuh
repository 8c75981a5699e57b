// SPDX-License-Identifier: Apache-2.0
// A warp's part of a weight in fragment tiles: loads, dequantization in registers, and products
// with up to 8 tokens at a time. Contains no kernel.
//
// Quants are multiplied as they are: bf16 holds every integer up to 128 + q, whose bits are 0x4300
// plus q. The accumulators start at minus that offset times the sum of the tokens' elements, and
// each block's sum is multiplied by its scale in fp32, so weights are never rounded.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "backends/cuda/kernels/gemm/fragment_gemm.h"
#include "backends/cuda/kernels/gemm/warp_product.cuh"
#include "backends/cuda/kernels/vector_io.cuh"
#include "base/fragment_tiles.h"

namespace ridge::backends::cuda::fragments {

inline constexpr int kColumns = static_cast<int>(kFragmentColumns);
inline constexpr uint32_t kOffsetPair = 0x43004300u;  // bf16 128, twice
inline constexpr float kFloatOffset = 8388608.0f;     // 2^23: its last bits are an integer's

// Weights are read only once in a step.
__device__ __forceinline__ uint4 load_once(const uint8_t* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

__device__ __forceinline__ uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

__device__ __forceinline__ float half_bits(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
}

// 2^23 plus byte i of a word, as a float.
__device__ __forceinline__ float offset_byte(uint32_t word, int i) {
  return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u + static_cast<uint32_t>(i)));
}

// (a & mask) | b in one instruction: the compiler makes two of it if both are constants.
template <uint32_t kMask>
__device__ __forceinline__ uint32_t and_or(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "n"(kMask), "r"(b));
  return result;
}

// The offset in a register, where the compiler cannot know its value.
__device__ __forceinline__ uint32_t offset_pair() {
  uint32_t value;
  asm("mov.b32 %0, %1;" : "=r"(value) : "n"(kOffsetPair));
  return value;
}

// Pairs of quants, plus 128 each, of one word of low bits.
__device__ __forceinline__ uint32_t low_pair(uint32_t word, int pair, uint32_t offset) {
  return and_or<0x000f000fu>(word >> (4 * pair), offset);
}

// The six-bit scales and mins of the eight blocks of a row, a byte each.
struct ScaleBytes {
  uint32_t scales[2], mins[2];
  __device__ __forceinline__ explicit ScaleBytes(const uint4& header) {
    scales[0] = header.y & 0x3f3f3f3fu;
    mins[0] = header.z & 0x3f3f3f3fu;
    scales[1] = (header.w & 0x0f0f0f0fu) | ((header.y >> 2) & 0x30303030u);
    mins[1] = ((header.w >> 4) & 0x0f0f0f0fu) | ((header.z >> 2) & 0x30303030u);
  }
};

// One lane's part of a row of a tile.
struct LaneQ4_K {
  using Tile = FragmentsQ4_K;
  static constexpr int kScaleColumns = Tile::kScaleColumns;
  static constexpr float kOffset = 128.0f;
  static constexpr bool kHasMins = true;
  uint4 header, low[2];

  __device__ __forceinline__ void load(const uint8_t* tile, int lane) {
    header = load_once(tile + offsetof(Tile, headers) + lane / 4 * 16);
#pragma unroll
    for (int v = 0; v < 2; ++v)
      low[v] = load_once(tile + offsetof(Tile, low) + v * 512 + lane * 16);
  }
  __device__ __forceinline__ uint32_t pair(int word, int i, uint32_t offset) const {
    return low_pair(word_of(low[word / 4], word % 4), i, offset);
  }
};

struct LaneQ6_K {
  using Tile = FragmentsQ6_K;
  static constexpr int kScaleColumns = Tile::kScaleColumns;
  static constexpr float kOffset = 128.0f + 32.0f;
  static constexpr bool kHasMins = false;
  uint4 header, low[2], high;
  uint16_t scale;

  __device__ __forceinline__ void load(const uint8_t* tile, int lane) {
    header = load_once(tile + offsetof(Tile, headers) + lane / 4 * 16);
#pragma unroll
    for (int v = 0; v < 2; ++v)
      low[v] = load_once(tile + offsetof(Tile, low) + v * 512 + lane * 16);
    high = load_once(tile + offsetof(Tile, high) + lane * 16);
    scale = __ldg(reinterpret_cast<const uint16_t*>(tile + offsetof(Tile, scales)) + lane / 4);
  }
  __device__ __forceinline__ uint32_t pair(int word, int i, uint32_t offset) const {
    const uint32_t bits = word_of(high, word / 2);
    const int at = 2 * (i + 4 * (word % 2));
    const uint32_t shifted = at < 4 ? bits << (4 - at) : bits >> (at - 4);
    return and_or<0x00300030u>(shifted, low_pair(word_of(low[word / 4], word % 4), i, offset));
  }
};

// The scale of each block of a row, in fp32.
struct Scales {
  float d, minus;
  uint32_t bytes[4];
  __device__ __forceinline__ explicit Scales(const LaneQ4_K& row) {
    const ScaleBytes all(row.header);
    d = half_bits(row.header.x & 0xffffu);
    minus = -kFloatOffset * d;
    bytes[0] = all.scales[0], bytes[1] = all.scales[1];
  }
  __device__ __forceinline__ explicit Scales(const LaneQ6_K& row) {
    d = half_bits(row.scale);
    bytes[0] = row.header.x, bytes[1] = row.header.y;
    bytes[2] = row.header.z, bytes[3] = row.header.w;
  }
  template <class Lane>
  __device__ __forceinline__ float of(int block) const {
    const float biased = offset_byte(bytes[block / 4], block % 4);
    if constexpr (Lane::kHasMins)
      return fmaf(biased, d, minus);
    else
      return (biased - (kFloatOffset + 128.0f)) * d;
  }
};

// Sums of a token's elements in each block of columns, in shared memory, for all columns of x:
// times minus the quants' offset, and, for formats with mins, as two bf16 that add up to them.
template <class Lane>
struct TokenSums {
  static constexpr int kTokens = 8;
  static constexpr int kBlocks = kColumns / Lane::kScaleColumns;  // per tile
  float* offsets;   // [tile, block, token / 2, twice, token % 2]: as accumulators start
  uint32_t* pairs;  // [tile, token, block % 4, block / 4]

  static __host__ __device__ constexpr int64_t bytes(int64_t in) {
    const int64_t tiles = in / kColumns;
    return tiles * kTokens * 4 * (2 * kBlocks + (Lane::kHasMins ? kBlocks : 0));
  }
  __device__ __forceinline__ TokenSums(void* shared, int64_t in)
      : offsets(static_cast<float*>(shared)),
        pairs(static_cast<uint32_t*>(shared) + in / kColumns * kBlocks * kTokens * 2) {}

  // The sums of tokens 2 t and 2 t + 1, for both rows.
  __device__ __forceinline__ float4 offset(int tile, int block, int t) const {
    return reinterpret_cast<const float4*>(offsets)[(tile * kBlocks + block) * kTokens / 2 + t];
  }
  // Blocks t and t + 4.
  __device__ __forceinline__ uint2 pair(int tile, int token, int t) const {
    return *reinterpret_cast<const uint2*>(pairs + ((tile * kTokens + token) * 4 + t) * 2);
  }

  // Sums the columns of one tile of all tokens, by one warp.
  __device__ __forceinline__ void add_up(int tile,
                                         StridedRows<const uint16_t> x,
                                         int tokens) const {
    constexpr int kLanesOfBlock = Lane::kScaleColumns / 8;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    uint4 rows[kTokens];
#pragma unroll
    for (int n = 0; n < kTokens; ++n)
      if (n < tokens)
        rows[n] = *reinterpret_cast<const uint4*>(x[n] + int64_t{tile} * kColumns + 8 * lane);
#pragma unroll
    for (int n = 0; n < kTokens; ++n) {
      if (n >= tokens) continue;
      float v[8];
      unpack(Packed<uint16_t, 8>{{rows[n]}}, v);
      float sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
#pragma unroll
      for (int mask = 1; mask < kLanesOfBlock; mask *= 2) sum += shuffle_xor(sum, mask);
      if (lane % kLanesOfBlock != 0) continue;
      const int block = lane / kLanesOfBlock;
      float* start = offsets + ((tile * kBlocks + block) * kTokens / 2 + n / 2) * 4 + n % 2;
      start[0] = start[2] = -Lane::kOffset * sum;
      if constexpr (Lane::kHasMins) {
        const float high = to_float(from_float<uint16_t>(sum));
        pairs[((tile * kTokens + n) * 4 + block % 4) * 2 + block / 4] = pack_bf16(high, sum - high);
      }
    }
  }
};

// 128 plus byte i of a word, without the 128, in both halves of a pair of bf16.
__device__ __forceinline__ uint32_t byte_pair(uint32_t word, uint32_t i) {
  const uint32_t bits = __byte_perm(word, 0x43434343u, 0x4040u + i * 0x0101u);
  const uint32_t offset = kOffsetPair;
  const __nv_bfloat162 pair = __hsub2(reinterpret_cast<const __nv_bfloat162&>(bits),
                                      reinterpret_cast<const __nv_bfloat162&>(offset));
  return reinterpret_cast<const uint32_t&>(pair);
}

// sum -= the rows' mins times the tokens' sums.
__device__ __forceinline__ void subtract_mins(const LaneQ4_K& upper,
                                              const LaneQ4_K& lower,
                                              uint2 sums,
                                              float (&sum)[4]) {
  const uint32_t t = threadIdx.x % 4;
  const ScaleBytes above(upper.header), below(lower.header);
  const uint32_t a[4] = {byte_pair(above.mins[0], t), byte_pair(below.mins[0], t),
                         byte_pair(above.mins[1], t), byte_pair(below.mins[1], t)};
  float c[4] = {};
  warp_product(c, a, sums.x, sums.y);
  const float d_above = half_bits(upper.header.x >> 16), d_below = half_bits(lower.header.x >> 16);
  sum[0] = fmaf(-d_above, c[0], sum[0]);
  sum[1] = fmaf(-d_above, c[1], sum[1]);
  sum[2] = fmaf(-d_below, c[2], sum[2]);
  sum[3] = fmaf(-d_below, c[3], sum[3]);
}

__device__ __forceinline__ void add_scaled(float above,
                                           float below,
                                           const float (&c)[4],
                                           float (&sum)[4]) {
  sum[0] = fmaf(above, c[0], sum[0]);
  sum[1] = fmaf(above, c[1], sum[1]);
  sum[2] = fmaf(below, c[2], sum[2]);
  sum[3] = fmaf(below, c[3], sum[3]);
}

// The left operand of a product: pairs i and i + 1 of a word of both rows.
template <class Lane>
__device__ __forceinline__ void left_operand(const Lane& upper,
                                             const Lane& lower,
                                             int word,
                                             int i,
                                             uint32_t offset,
                                             uint32_t (&a)[4]) {
  a[0] = upper.pair(word, i, offset);
  a[1] = lower.pair(word, i, offset);
  a[2] = upper.pair(word, i + 1, offset);
  a[3] = lower.pair(word, i + 1, offset);
}

// sum [16 rows, 8 tokens] += a tile of both row blocks times the tokens' columns, to which `x`
// points. Which tokens a lane's sums are of is that of warp_product.
template <class Lane>
__device__ __forceinline__ void add_tile(const Lane& upper,
                                         const Lane& lower,
                                         const uint16_t* x,
                                         const TokenSums<Lane>& sums,
                                         int tile,
                                         float (&sum)[4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4;
  const Scales above(upper), below(lower);
  const uint32_t offset = offset_pair();
  constexpr int kSteps = Lane::kScaleColumns / 16;  // products of 16 columns per block
#pragma unroll
  for (int block = 0; block < TokenSums<Lane>::kBlocks; ++block) {
    const float4 start = sums.offset(tile, block, t);
    float c[4] = {start.x, start.y, start.z, start.w};
    uint32_t a[4];
    if constexpr (kSteps == 2) {
      const uint4 b = *reinterpret_cast<const uint4*>(x + 32 * block + 8 * t);
      left_operand(upper, lower, block, 0, offset, a);
      warp_product(c, a, b.x, b.y);
      left_operand(upper, lower, block, 2, offset, a);
      warp_product(c, a, b.z, b.w);
    } else {
      const uint2 b = *reinterpret_cast<const uint2*>(x + 16 * block + 4 * t);
      left_operand(upper, lower, block / 2, block % 2 * 2, offset, a);
      warp_product(c, a, b.x, b.y);
    }
    add_scaled(above.template of<Lane>(block), below.template of<Lane>(block), c, sum);
  }
  if constexpr (Lane::kHasMins) subtract_mins(upper, lower, sums.pair(tile, lane / 4, t), sum);
}

// The values of a lane's word, in the order of its elements.
__device__ __forceinline__ void values_of(const LaneQ4_K& row, int word, float (&values)[8]) {
  const Scales scales(row);
  const ScaleBytes bytes(row.header);
  const float scale = scales.of<LaneQ4_K>(word),
              min = half_bits(row.header.x >> 16) *
                    static_cast<float>((bytes.mins[word / 4] >> (word % 4 * 8)) & 0xffu);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t pair = row.pair(word, i / 2, kOffsetPair) >> (i % 2 * 16);
    values[i] = fmaf(scale, static_cast<float>(pair & 0x7fu), -min);
  }
}
__device__ __forceinline__ void values_of(const LaneQ6_K& row, int word, float (&values)[8]) {
  const Scales scales(row);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint32_t pair = row.pair(word, i / 2, kOffsetPair) >> (i % 2 * 16);
    values[i] = scales.of<LaneQ6_K>(2 * word + i / 4) *
                static_cast<float>(static_cast<int>(pair & 0x7fu) - 32);
  }
}

// Stores a lane's 64 values of a tile's row, whose columns begin at `to`.
template <class Lane, typename T>
__device__ __forceinline__ void store_values(const Lane& row, int t, T* to) {
#pragma unroll
  for (int word = 0; word < 8; ++word) {
    float values[8];
    values_of(row, word, values);
    if constexpr (Lane::kScaleColumns == 32) {
      store_floats(to + 32 * word + 8 * t, values);
    } else {
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        const float half[4] = {values[4 * step], values[4 * step + 1], values[4 * step + 2],
                               values[4 * step + 3]};
        store_floats(to + 32 * word + 16 * step + 4 * t, half);
      }
    }
  }
}

// Calls body(Lane()) with the format's lane.
template <typename Body>
auto with_lane(FragmentFormat format, const Body& body) {
  return format == FragmentFormat::kQ4_K ? body(LaneQ4_K()) : body(LaneQ6_K());
}

}  // namespace ridge::backends::cuda::fragments
