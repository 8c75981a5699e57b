// SPDX-License-Identifier: Apache-2.0
// A warp's tile of 16 keys and their values in shared memory, in the type of the KV cache, and its
// products with the heads of one token on mma.sync: up to eight heads are the rows of a product.
// When the weights multiply the values, the other eight rows have what rounding the weights to
// bf16 leaves, so that the weights count with 16 bits.
#pragma once

#include "backends/cuda/kernels/flash_attention/tensor/quants.cuh"

namespace ridge::backends::cuda::tensor {

inline constexpr int kWarpKeys = 16;

// Scales of a tile's keys and values.
template <bool kHasScales>
struct TileScales {};
template <>
struct TileScales<true> {
  alignas(16) float key_scales[kWarpKeys];
  float value_scales[kWarpKeys];
};

// Rows are not padded. Vector v of a row lies at v ^ n, where n depends on the row: lanes that read
// at the same time are then on different banks. These are eight rows of a matrix, or, with quants
// as keys, four vectors each of two rows.
template <int kE, typename C>
struct WarpTile : TileScales<kIsQuant<C>> {
  static constexpr int kVector = 16 / static_cast<int>(sizeof(C));  // elements
  static constexpr int kVectors = kE / kVector;                     // per row
  static_assert(kVectors % 4 == 0);
  alignas(16) C keys[kWarpKeys * kE];
  alignas(16) C values[kWarpKeys * kE];

  static __device__ __forceinline__ int value_place(int row, int vector) {
    const int moved = kVectors == 4 ? row / 2 % 4 : row % 8;
    return row * kE + (vector ^ moved) * kVector;
  }
  static __device__ __forceinline__ int key_place(int row, int vector) {
    if constexpr (!kIsQuant<C>) return value_place(row, vector);
    const int moved = kVectors == 4 ? 0 : row % 2 * 4;
    return row * kE + (vector ^ moved) * kVector;
  }
};

// The queries of a block's heads as the upper eight rows of the left operand; the others are 0. A
// lane's elements of a product are neighbours where it reads quants of the keys as vectors.
template <int kE, typename C>
struct Queries {
  uint32_t pairs[kE / 16][2];

  static __device__ __forceinline__ int column(int step, int half, Lane l) {
    return kIsQuant<C> ? 16 * (l.place + step / 4 * 4) + step % 4 * 4 + 2 * half
                       : 16 * step + 8 * half + 2 * l.place;
  }

  // `head` is the head of row l.group; null if there is none.
  __device__ __forceinline__ void load(const uint16_t* head, int64_t head_size, Lane l) {
#pragma unroll
    for (int step = 0; step < kE / 16; ++step)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int own = column(step, half, l);
        pairs[step][half] = head != nullptr && own < head_size ? word(head + own) : 0;
      }
  }
};

// A warp's sums: head g is the sum of the accumulators' rows g and g + 8.
template <int kE, typename C>
struct Mix {
  float out[kE / 8][4] = {};

  __device__ __forceinline__ void scale_by(float factor) {
#pragma unroll
    for (int n = 0; n < kE / 8; ++n)
#pragma unroll
      for (int c = 0; c < 4; ++c) out[n][c] *= factor;
  }

  // Writes the sums of head l.group.
  __device__ __forceinline__ void store(float* to, Lane l) const {
    if constexpr (kIsQuant<C>) {
#pragma unroll
      for (int n = 0; n < kE / 8; n += 2)
        *reinterpret_cast<float4*>(to + 8 * n + 4 * l.place) =
            make_float4(out[n][0] + out[n][2], out[n + 1][0] + out[n + 1][2], out[n][1] + out[n][3],
                        out[n + 1][1] + out[n + 1][3]);
    } else {
#pragma unroll
      for (int n = 0; n < kE / 8; ++n)
        *reinterpret_cast<float2*>(to + 8 * n + 2 * l.place) =
            make_float2(out[n][0] + out[n][2], out[n][1] + out[n][3]);
    }
  }
};

__device__ __forceinline__ const Bf16* moved(const void* rows, int bytes) {
  return reinterpret_cast<const Bf16*>(static_cast<const unsigned char*>(rows) + bytes);
}

// s[j][c] = head l.group times key 8 j + 2 l.place + c, for c < 2. Keys are without their scales.
template <int kE, typename C>
__device__ __forceinline__ void multiply_keys(const Queries<kE, C>& queries,
                                              const WarpTile<kE, C>& tile,
                                              float (&s)[2][4],
                                              Lane l) {
  constexpr int kVectorBytes = 16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (kIsQuant<C>) {
#pragma unroll
    for (int i = 0; i < kE / 64; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int at = WarpTile<kE, C>::key_place(8 * j + l.group, l.place + 4 * i);
        const uint4 vector = *reinterpret_cast<const uint4*>(tile.keys + at);
        const uint32_t words[4] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          const uint32_t a[4] = {queries.pairs[4 * i + k][0], 0, queries.pairs[4 * i + k][1], 0};
          Product<Bf16>::run(s[j], a, widen<0, 1>(words[k], C{}), widen<2, 3>(words[k], C{}));
        }
      }
    }
  } else {
    const auto* keys = tile.keys + (lane % 8 + lane / 16 * 8) * kE;
    const int place = (lane / 8 % 2 ^ lane % 8) * kVectorBytes;
#pragma unroll
    for (int step = 0; step < kE / 16; ++step) {
      uint32_t b[4];
      load_matrices(b, moved(keys, 2 * step * kVectorBytes ^ place));
      const uint32_t a[4] = {queries.pairs[step][0], 0, queries.pairs[step][1], 0};
      Product<Bf16>::run(s[0], a, b[0], b[1]);
      Product<Bf16>::run(s[1], a, b[2], b[3]);
    }
  }
}

// The weights of multiply_keys's keys as the left operand.
__device__ __forceinline__ void split_weights(const float (&s)[2][4], uint32_t (&weights)[4]) {
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const uint32_t rounded = Product<Bf16>::pack(s[j][0], s[j][1]);
    weights[2 * j] = rounded;
    weights[2 * j + 1] = Product<Bf16>::pack(s[j][0] - __uint_as_float(rounded << 16),
                                             s[j][1] - __uint_as_float(rounded & 0xffff0000u));
  }
}

// Adds the weighted values. A transposed matrix of quants has two elements of two keys in a word.
template <int kE, typename C>
__device__ __forceinline__ void add_values(const WarpTile<kE, C>& tile,
                                           const uint32_t (&weights)[4],
                                           Mix<kE, C>& mix) {
  constexpr int kVectorBytes = 16;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (kIsQuant<C>) {
#pragma unroll
    for (int vector = 0; vector < WarpTile<kE, C>::kVectors; vector += 2) {
      uint32_t r[4];
      const int at = WarpTile<kE, C>::value_place(lane % 16, vector + lane / 16);
      load_transposed(r, reinterpret_cast<const Bf16*>(tile.values + at));
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int n = 2 * (vector + i);
        Product<Bf16>::run(mix.out[n], weights, widen<0, 2>(r[2 * i], C{}),
                           widen<0, 2>(r[2 * i + 1], C{}));
        Product<Bf16>::run(mix.out[n + 1], weights, widen<1, 3>(r[2 * i], C{}),
                           widen<1, 3>(r[2 * i + 1], C{}));
      }
    }
  } else {
    const auto* values = tile.values + lane % 16 * kE;
    const int place = (lane / 16 ^ lane % 8) * kVectorBytes;
#pragma unroll
    for (int n = 0; n < kE / 8; n += 2) {
      uint32_t b[4];
      load_transposed(b, moved(values, n * kVectorBytes ^ place));
      Product<Bf16>::run(mix.out[n], weights, b[0], b[1]);
      Product<Bf16>::run(mix.out[n + 1], weights, b[2], b[3]);
    }
  }
}

}  // namespace ridge::backends::cuda::tensor
