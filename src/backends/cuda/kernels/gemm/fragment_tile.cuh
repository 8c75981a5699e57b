// SPDX-License-Identifier: Apache-2.0
// A lane's part of a row of a weight in fragment tiles: loads, and dequantization in registers.
// Contains no kernel.
//
// A quant of four bits becomes fp16 by one instruction: with the exponent of 1024 the low bits of
// the significand are an integer, with that of 64 the bits from the fourth on. The offset is
// subtracted exactly. Q4_K, Q5_K and Q6_K multiply by the integer scale of the sub-block in the
// same instruction: exact but for products over 2048 in Q6_K, which are rounded to 11 bits; the
// block's scale multiplies sums in fp32. Formats with a scale per 32 columns are rounded to fp16.
#pragma once

#include <cuda_fp16.h>

#include "backends/cuda/kernels/gemm/fragment_gemm.h"
#include "backends/cuda/kernels/vector_io.cuh"
#include "base/fragment_tiles.h"

namespace ridge::backends::cuda::fragments {

inline constexpr int kColumns = static_cast<int>(kFragmentColumns);
inline constexpr int kWords = 8;  // a lane has so many in a row: 8 elements each, 4 pairs
inline constexpr uint32_t kThousand = 0x64006400u, kSixtyFour = 0x54005400u;  // fp16 1024, 64

__device__ __forceinline__ uint32_t word_of(const uint4& v, int i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

__device__ __forceinline__ float half_bits(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
}

// Half i of eight.
__device__ __forceinline__ float half_of(const uint4& v, int i) {
  return half_bits(word_of(v, i / 2) >> (i % 2 * 16));
}
// ---- pairs of fp16 ----

__device__ __forceinline__ __half2 as_pair(uint32_t bits) {
  return reinterpret_cast<const __half2&>(bits);
}
__device__ __forceinline__ uint32_t as_bits(__half2 pair) {
  return reinterpret_cast<const uint32_t&>(pair);
}
__device__ __forceinline__ uint32_t plus(uint32_t x, float y) {
  return as_bits(__hadd2(as_pair(x), __float2half2_rn(y)));
}
__device__ __forceinline__ uint32_t less(uint32_t x, uint32_t y) {
  return as_bits(__hsub2(as_pair(x), as_pair(y)));
}
__device__ __forceinline__ uint32_t times(uint32_t x, float y) {
  return as_bits(__hmul2(as_pair(x), __float2half2_rn(y)));
}
__device__ __forceinline__ uint32_t times(uint32_t x, uint32_t y) {
  return as_bits(__hmul2(as_pair(x), as_pair(y)));
}
__device__ __forceinline__ uint32_t fused(uint32_t x, uint32_t y, uint32_t z) {
  return as_bits(__hfma2(as_pair(x), as_pair(y), as_pair(z)));
}
__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
  return as_bits(__floats2half2_rn(low, high));
}

// Half i of a pair, twice: an operand of such an instruction costs nothing.
__device__ __forceinline__ uint32_t both(uint32_t pair, int i) {
  return as_bits(i == 0 ? __low2half2(as_pair(pair)) : __high2half2(as_pair(pair)));
}

// (a & mask) | b in one instruction: the compiler makes two of it if both are constants.
template <uint32_t kMask>
__device__ __forceinline__ uint32_t and_or(uint32_t a, uint32_t b) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(a), "n"(kMask), "r"(b));
  return result;
}

// A constant in a register, where the compiler cannot know its value.
template <uint32_t kValue>
__device__ __forceinline__ uint32_t opaque() {
  uint32_t value;
  asm("mov.b32 %0, %1;" : "=r"(value) : "n"(kValue));
  return value;
}

// `by` may be negative.
__device__ __forceinline__ uint32_t shifted_right(uint32_t word, int by) {
  return by < 0 ? word << -by : word >> by;
}

// ---- levels: quants plus an offset, as pairs of fp16 ----

// Pairs 0 and 2 of a word are 1024 plus the quant, pairs 1 and 3 64 plus it, for up to 5 bits.
__host__ __device__ constexpr float exponent_of(int pair) {
  return pair % 2 == 0 ? 1024.0f : 64.0f;
}

__device__ __forceinline__ void nibble_levels(uint32_t word, uint32_t (&pairs)[4]) {
  const uint32_t thousand = opaque<kThousand>(), sixty_four = opaque<kSixtyFour>();
  pairs[0] = and_or<0x000f000fu>(word, thousand);
  pairs[1] = and_or<0x00f000f0u>(word, sixty_four);
  word >>= 8;
  pairs[2] = and_or<0x000f000fu>(word, thousand);
  pairs[3] = and_or<0x00f000f0u>(word, sixty_four);
}

// `high` has bit 4 of pair i of word w at 4 (w % 4) + i.
__device__ __forceinline__ void add_fifth_bits(uint32_t high, int w, uint32_t (&pairs)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = 4 * (w % 4) + i;
    pairs[i] = i % 2 == 0 ? and_or<0x00100010u>(shifted_right(high, at - 4), pairs[i])
                          : and_or<0x01000100u>(shifted_right(high, at - 8), pairs[i]);
  }
}

// The vectors of low bits of a lane.
template <typename Tile>
struct LaneLow {
  static constexpr int kVectors = static_cast<int>(sizeof(Tile::low) / (32 * 16));
  uint4 low[kVectors];

  __device__ __forceinline__ void load_low(const uint8_t* tile, int lane) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      low[v] = *reinterpret_cast<const uint4*>(tile + offsetof(Tile, low) + v * 512 + lane * 16);
  }
};

// ---- formats with a scale, and perhaps a min, per 32 columns ----

template <typename TileType, int kCenterQuant>
struct BlockLane : LaneLow<TileType> {
  using Tile = TileType;
  static constexpr bool kHasMins = false;  // subtracted from sums
  static constexpr bool kAdds = requires(Tile tile) { tile.mins; };
  static constexpr bool kHasHigh = requires(Tile tile) { tile.high; };
  static constexpr bool kHasBytes = LaneLow<Tile>::kVectors == 4;
  struct None {};
  uint4 scales;
  std::conditional_t<kAdds, uint4, None> mins;
  std::conditional_t<kHasHigh, uint2, None> high;

  __device__ __forceinline__ void load(const uint8_t* tile, int lane) {
    this->load_low(tile, lane);
    scales = *reinterpret_cast<const uint4*>(tile + lane / 4 * 16);
    if constexpr (kAdds)
      mins = *reinterpret_cast<const uint4*>(tile + offsetof(Tile, mins) + lane / 4 * 16);
    if constexpr (kHasHigh)
      high = *reinterpret_cast<const uint2*>(tile + offsetof(Tile, high) + lane * 8);
  }
  static __host__ __device__ constexpr float offset(int pair) {
    return kHasBytes ? 1024.0f + 128.0f : exponent_of(pair) + static_cast<float>(kCenterQuant);
  }
  __device__ __forceinline__ void levels(int w, uint32_t (&pairs)[4]) const {
    if constexpr (kHasBytes) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        pairs[i] = __byte_perm(word_of(this->low[w / 2], 2 * w % 4 + i / 2), kThousand,
                               i % 2 == 0 ? 0x5150 : 0x5352);
    } else {
      nibble_levels(word_of(this->low[w / 4], w % 4), pairs);
      if constexpr (kHasHigh) add_fifth_bits(w < 4 ? high.x : high.y, w, pairs);
    }
  }
  // The weights of words 2 j and 2 j + 1.
  __device__ __forceinline__ void weights(int j, uint32_t (&pairs)[2][4]) const {
    const uint32_t scale = word_of(scales, j);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      levels(2 * j + k, pairs[k]);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t quant = plus(pairs[k][i], -offset(i));
        if constexpr (kAdds)
          pairs[k][i] = fused(quant, both(scale, k), both(word_of(mins, j), k));
        else
          pairs[k][i] = times(quant, both(scale, k));
      }
    }
  }
  __device__ __forceinline__ float row_scale() const { return 1.0f; }
  __device__ __forceinline__ float scale(int w) const { return half_of(scales, w); }
  __device__ __forceinline__ float added(int w) const {
    if constexpr (kAdds)
      return half_of(mins, w);
    else
      return -0.0f;  // keeps the sign of 0
  }
};

using LaneQ4_0 = BlockLane<FragmentsQ4_0, 8>;
using LaneQ4_1 = BlockLane<FragmentsQ4_1, 0>;
using LaneQ5_0 = BlockLane<FragmentsQ5_0, 16>;
using LaneQ5_1 = BlockLane<FragmentsQ5_1, 0>;
using LaneQ8_0 = BlockLane<FragmentsQ8_0, 0>;

// ---- formats with a scale and a zero point per group ----

// The zero point is subtracted from the quant exactly, so that a weight is the product of two exact
// numbers, rounded once to fp16: the values of the tools that made the file.
template <typename TileType>
struct GroupLane : LaneLow<TileType> {
  using Tile = TileType;
  static constexpr bool kHasMins = false;
  static constexpr bool kIsOf32 = Tile::Block::kGroup == 32;
  std::conditional_t<kIsOf32, uint4, uint32_t> scales;
  std::conditional_t<kIsOf32, uint2, uint32_t> zeros;

  __device__ __forceinline__ void load(const uint8_t* tile, int lane) {
    this->load_low(tile, lane);
    const int row = lane / 4;
    if constexpr (kIsOf32) {
      scales = reinterpret_cast<const uint4*>(tile)[row];
      zeros = reinterpret_cast<const uint2*>(tile + offsetof(Tile, zeros))[row];
    } else {
      scales = reinterpret_cast<const uint32_t*>(tile)[row];
      zeros = reinterpret_cast<const uint16_t*>(tile + offsetof(Tile, zeros))[row];
    }
  }
  static __host__ __device__ constexpr float offset(int pair) { return exponent_of(pair); }
  __device__ __forceinline__ void levels(int w, uint32_t (&pairs)[4]) const {
    nibble_levels(word_of(this->low[w / 4], w % 4), pairs);
  }
  // The scale of word w in both halves, and 1024 plus its zero point.
  __device__ __forceinline__ uint32_t scale_pair(int w) const {
    if constexpr (kIsOf32)
      return both(word_of(scales, w / 2), w % 2);
    else
      return both(scales, w / 4);
  }
  __device__ __forceinline__ uint32_t zero_pair(int w) const {
    if constexpr (kIsOf32)
      return __byte_perm(w < 4 ? zeros.x : zeros.y, kThousand, 0x5050 + w % 4 * 0x0101);
    else
      return __byte_perm(zeros, kThousand, 0x5050 + w / 4 * 0x0101);
  }
  __device__ __forceinline__ void weights(int j, uint32_t (&pairs)[2][4]) const {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int w = 2 * j + k;
      const uint32_t scale = scale_pair(w),
                     zero[2] = {zero_pair(w), plus(zero_pair(w), offset(1) - offset(0))};
      levels(w, pairs[k]);
#pragma unroll
      for (int i = 0; i < 4; ++i) pairs[k][i] = times(less(pairs[k][i], zero[i % 2]), scale);
    }
  }
  __device__ __forceinline__ float row_scale() const { return 1.0f; }
  __device__ __forceinline__ float scale(int w) const { return half_bits(scale_pair(w) & 0xffffu); }
  __device__ __forceinline__ float added(int w) const {
    return -scale(w) * (half_bits(zero_pair(w) & 0xffffu) - offset(0));
  }
};

using LaneQ4_G32 = GroupLane<FragmentsQ4_G32>;
using LaneQ4_G128 = GroupLane<FragmentsQ4_G128>;

// ---- formats with integer scales per sub-block ----

// The six-bit scales and mins of the eight sub-blocks of a row, a byte each.
struct ScaleBytes {
  uint32_t scales[2], mins[2];
  __device__ __forceinline__ explicit ScaleBytes(const uint4& header) {
    scales[0] = header.y & 0x3f3f3f3fu;
    mins[0] = header.z & 0x3f3f3f3fu;
    scales[1] = (header.w & 0x0f0f0f0fu) | ((header.y >> 2) & 0x30303030u);
    mins[1] = ((header.w >> 4) & 0x0f0f0f0fu) | ((header.z >> 2) & 0x30303030u);
  }
};

// Byte i of a word in both halves of a pair.
__device__ __forceinline__ uint32_t byte_pair(uint32_t word, uint32_t i) {
  return plus(__byte_perm(word, kThousand, 0x5050u + i * 0x0101u), -1024.0f);
}

// The levels of words 2 j and 2 j + 1, less their offsets, times the sub-scales in a pair, to which
// kAdded is added.
template <int kAdded, class Lane>
__device__ __forceinline__ void scaled(const Lane& row,
                                       int j,
                                       uint32_t bits,
                                       uint32_t (&pairs)[2][4]) {
  const uint32_t scale = plus(bits, -static_cast<float>(kAdded));
  const uint32_t minus[2] = {times(scale, -Lane::offset(0)), times(scale, -Lane::offset(1))};
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    row.levels(2 * j + k, pairs[k]);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pairs[k][i] = fused(pairs[k][i], both(scale, k), both(minus[i % 2], k));
  }
}

// Q4_K and Q5_K.
template <typename TileType>
struct MinLane : LaneLow<TileType> {
  using Tile = TileType;
  static constexpr bool kHasMins = true;
  static constexpr bool kHasHigh = requires(Tile tile) { tile.high; };
  struct None {};
  uint4 header;
  std::conditional_t<kHasHigh, uint2, None> high;

  __device__ __forceinline__ void load(const uint8_t* tile, int lane) {
    this->load_low(tile, lane);
    header = *reinterpret_cast<const uint4*>(tile + lane / 4 * 16);
    if constexpr (kHasHigh)
      high = *reinterpret_cast<const uint2*>(tile + offsetof(Tile, high) + lane * 8);
  }
  static __host__ __device__ constexpr float offset(int pair) { return exponent_of(pair); }
  __device__ __forceinline__ void levels(int w, uint32_t (&pairs)[4]) const {
    nibble_levels(word_of(this->low[w / 4], w % 4), pairs);
    if constexpr (kHasHigh) add_fifth_bits(w < 4 ? high.x : high.y, w, pairs);
  }
  __device__ __forceinline__ void weights(int j, uint32_t (&pairs)[2][4]) const {
    const ScaleBytes bytes(header);
    scaled<1024>(*this, j,
                 __byte_perm(bytes.scales[j / 2], kThousand, j % 2 == 0 ? 0x5150 : 0x5352), pairs);
  }
  __device__ __forceinline__ float row_scale() const { return half_bits(header.x & 0xffffu); }
  __device__ __forceinline__ float row_min() const { return half_bits(header.x >> 16); }
  // The mins of sub-blocks t and t + 4 as pairs.
  __device__ __forceinline__ void min_pairs(uint32_t t, uint32_t& first, uint32_t& second) const {
    const ScaleBytes bytes(header);
    first = byte_pair(bytes.mins[0], t);
    second = byte_pair(bytes.mins[1], t);
  }
  __device__ __forceinline__ float scale(int w) const {
    const ScaleBytes bytes(header);
    return row_scale() * static_cast<float>(bytes.scales[w / 4] >> (w % 4 * 8) & 0xffu);
  }
  __device__ __forceinline__ float added(int w) const {
    const ScaleBytes bytes(header);
    return -row_min() * static_cast<float>(bytes.mins[w / 4] >> (w % 4 * 8) & 0xffu);
  }
};

using LaneQ4_K = MinLane<FragmentsQ4_K>;
using LaneQ5_K = MinLane<FragmentsQ5_K>;

struct LaneQ6_K : LaneLow<FragmentsQ6_K> {
  using Tile = FragmentsQ6_K;
  static constexpr bool kHasMins = false;
  uint4 header, high;
  uint32_t row_bits, select;  // the bytes of this lane's columns of two words

  __device__ __forceinline__ void load(const uint8_t* tile, int lane) {
    load_low(tile, lane);
    header = *reinterpret_cast<const uint4*>(tile + offsetof(Tile, headers) + lane / 4 * 16);
    high = *reinterpret_cast<const uint4*>(tile + offsetof(Tile, high) + lane * 16);
    row_bits = reinterpret_cast<const uint16_t*>(tile + offsetof(Tile, scales))[lane / 4];
    select = 0x5250u + (lane % 4 / 2) * 0x0101u;
  }
  static __host__ __device__ constexpr float offset(int) { return 64.0f + 32.0f; }
  __device__ __forceinline__ void levels(int w, uint32_t (&pairs)[4]) const {
    const uint32_t word = word_of(low[w / 4], w % 4), top = word_of(high, w / 2),
                   sixty_four = opaque<kSixtyFour>();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      pairs[i] =
          and_or<0x03000300u>(shifted_right(top, 2 * (i + 4 * (w % 2)) - 8),
                              and_or<0x00f000f0u>(shifted_right(word, 4 * i - 4), sixty_four));
  }
  // The sub-scales of this lane's columns of words 2 j and 2 j + 1, plus 1024 + 128.
  __device__ __forceinline__ uint32_t sub_scales(int j) const {
    return __byte_perm(word_of(header, j), kThousand, select);
  }
  __device__ __forceinline__ void weights(int j, uint32_t (&pairs)[2][4]) const {
    scaled<1024 + 128>(*this, j, sub_scales(j), pairs);
  }
  __device__ __forceinline__ float row_scale() const { return half_bits(row_bits); }
  __device__ __forceinline__ float scale(int w) const {
    return row_scale() * (half_bits(sub_scales(w / 2) >> (w % 2 * 16)) - (1024.0f + 128.0f));
  }
  __device__ __forceinline__ float added(int) const { return -0.0f; }
};

// ---- whole values, exact in fp32 ----

// Stores a lane's 64 values of a tile's row, whose columns begin at `to`.
template <class Lane, typename T>
__device__ __forceinline__ void store_values(const Lane& row, int t, T* to) {
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    uint32_t pairs[4];
    row.levels(w, pairs);
    float values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float level = half_bits(pairs[i / 2] >> (i % 2 * 16));
      values[i] = fmaf(row.scale(w), level - Lane::offset(i / 2), row.added(w));
    }
    store_floats(to + 32 * w + 8 * t, values);
  }
}

// Calls body(Lane()) with the format's lane.
template <typename Body>
auto with_lane(FragmentFormat format, const Body& body) {
  switch (format) {
    case FragmentFormat::kQ4_0:
      return body(LaneQ4_0());
    case FragmentFormat::kQ4_1:
      return body(LaneQ4_1());
    case FragmentFormat::kQ5_0:
      return body(LaneQ5_0());
    case FragmentFormat::kQ5_1:
      return body(LaneQ5_1());
    case FragmentFormat::kQ8_0:
      return body(LaneQ8_0());
    case FragmentFormat::kQ5_K:
      return body(LaneQ5_K());
    case FragmentFormat::kQ6_K:
      return body(LaneQ6_K());
    case FragmentFormat::kQ4_G32:
      return body(LaneQ4_G32());
    case FragmentFormat::kQ4_G128:
      return body(LaneQ4_G128());
    default:
      return body(LaneQ4_K());
  }
}

}  // namespace ridge::backends::cuda::fragments
