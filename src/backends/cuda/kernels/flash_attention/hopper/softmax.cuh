// SPDX-License-Identifier: Apache-2.0
// The online softmax of the Hopper forward kernel, on scores in a warpgroup's accumulators.
// Computes no products except on the rare path that recomputes scores.
#pragma once

#include "backends/cuda/kernels/flash_attention/hopper/accumulator.cuh"
#include "backends/cuda/kernels/gemm/warp_product.cuh"

namespace ridge::backends::cuda::hopper {

// The state that a thread keeps for its two query rows (l / 4 and l / 4 + 8): the reference of the
// exponentials (log2, scaled) and its share of their sum.
struct RowState {
  // The initial reference is so low that the first visible score overflows and thereby moves the
  // reference.
  float reference[2] = {kLowest, kLowest};
  float sum[2] = {0.0f, 0.0f};
  static constexpr float kLowest = -1.0e30f;
};

// Replaces the scores by their exponentials relative to the current reference. A row's reference
// need not be its maximum: probabilities, sums and outputs scale alike, so any reference gives the
// same digits until something overflows. Returns true if a sum came near overflow; then the results
// must not be used, and the scores are lost.
template <int kCount>
__device__ __forceinline__ bool exponentials(float (&s)[kCount], RowState& rows, float scale_log2) {
  constexpr float kCeiling = 1.0e12f;
  float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int j = 0; j < kCount; j += 4) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      s[j + c] = exp2_fast(fmaf(s[j + c], scale_log2, -rows.reference[c / 2]));
      sum[c] += s[j + c];
    }
  }
  sum[0] += sum[1];
  sum[2] += sum[3];
  const bool fits = sum[0] < kCeiling && sum[2] < kCeiling;  // false for NaN
  if (__any_sync(0xffffffff, !fits)) return true;
  rows.sum[0] += sum[0];
  rows.sum[1] += sum[2];
  return false;
}

// The same with the reference moved to the maximum so far; the output must then be multiplied by
// factor[row].
template <int kCount>
__device__ __forceinline__ void exponentials_of_maximum(float (&s)[kCount],
                                                        RowState& rows,
                                                        float (&factor)[2],
                                                        float scale_log2) {
  float top[2] = {s[0], s[2]};
#pragma unroll
  for (int j = 0; j < kCount; j += 4) {
    top[0] = fmaxf(top[0], fmaxf(s[j], s[j + 1]));
    top[1] = fmaxf(top[1], fmaxf(s[j + 2], s[j + 3]));
  }
  float base[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffff, top[r], 1));
    top[r] = fmaxf(top[r], __shfl_xor_sync(0xffffffff, top[r], 2));
    base[r] = fmaxf(rows.reference[r], top[r] * scale_log2);
    factor[r] = exp2_fast(rows.reference[r] - base[r]);
    rows.reference[r] = base[r];
    rows.sum[r] *= factor[r];
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    s[j] = exp2_fast(fmaf(s[j], scale_log2, -base[(j / 2) % 2]));
    rows.sum[(j / 2) % 2] += s[j];
  }
}

// Recomputes the scores of one warp's 16 rows without the other warps. `queries` and `keys` are the
// tiles' rows of this warpgroup and block. This path is rare, so it is a separate function that
// works through memory, to cost the common path no registers.
template <class Tile>
__device__ __forceinline__ void scores_again(float* s,
                                             uint32_t queries,
                                             uint32_t keys,
                                             int thread) {
  const int lane = thread % 32;
  const int row = (thread / 32) * 16 + lane % 16;
  const int key = (lane / 16) * 8 + lane % 8;
  const uint32_t q = queries + row * kRowBytes;
  const uint32_t k = keys + key * kRowBytes;
  float d[Tile::kKeys / 2] = {};
#pragma unroll 1
  for (int i = 0; i < Tile::kHeadSize / 16; ++i) {
    uint32_t a[4], b[4];
    const int unit = 2 * (i % 4);
    load_matrices(q + (i / 4) * 64 * kRowBytes + ((unit + lane / 16) ^ (row % 8)) * 16, a);
#pragma unroll
    for (int j = 0; j < Tile::kKeys / 16; ++j) {
      load_matrices(k + (i / 4) * Tile::kKeys * kRowBytes + 16 * j * kRowBytes +
                        ((unit + (lane / 8) % 2) ^ (key % 8)) * 16,
                    b);
      warp_product(d + 8 * j, a, b[0], b[1]);
      warp_product(d + 8 * j + 4, a, b[2], b[3]);
    }
  }
#pragma unroll
  for (int i = 0; i < Tile::kKeys / 2; ++i) s[i] = d[i];
}

}  // namespace ridge::backends::cuda::hopper
