// SPDX-License-Identifier: Apache-2.0
// The rows of a product as fragment_gemm.cu keeps them in a block's shared memory: read, or normed,
// and converted to fp16 with a power of two per row and 256 columns. Contains no kernel.
#pragma once

#include "backends/cuda/kernels/gemm/fragment_shares.cuh"

namespace ridge::backends::cuda::skinny_gemm {

// The tokens of a block in shared memory.
template <class Form>
struct Tokens {
  uint16_t* x;      // [token, row_step] fp16, from the first column of the block on
  float* scales;    // [tile, token]: what fp16 is multiplied by
  uint32_t* pairs;  // [tile, token, block % 4, block / 4]: a sum of 32 columns as two fp16
  int row_step, rows, inverse;

  // Converts a lane's 8 columns of a token and tile: each tile's largest element is below 2^10, so
  // sums of 32 are finite too.
  __device__ __forceinline__ void put(float (&v)[8], int token, int tile) const {
    constexpr uint32_t kLeast = 10, kTop = 9;
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
    float most = fabsf(v[0]);
#pragma unroll
    for (int k = 1; k < 8; ++k) most = fmaxf(most, fabsf(v[k]));
    const uint32_t exponent =
        max(__reduce_max_sync(0xffffffffu, __float_as_uint(most)) >> 23, kLeast);
    const float factor = __uint_as_float((254 + kTop - exponent) << 23);
#pragma unroll
    for (float& each : v) each *= factor;
    *reinterpret_cast<uint4*>(x + token * row_step + tile * fragments::kColumns + 8 * lane) =
        make_uint4(fragments::pack_f16(v[0], v[1]), fragments::pack_f16(v[2], v[3]),
                   fragments::pack_f16(v[4], v[5]), fragments::pack_f16(v[6], v[7]));
    if (lane == 0) scales[tile * Form::kTokens + token] = __uint_as_float((exponent - kTop) << 23);
    if constexpr (Form::Lane::kHasMins) {
      float sum = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      const int block = lane / 4;
      const float high = __half2float(__float2half_rn(sum));
      if (lane % 4 == 0)
        pairs[((tile * rows + token) * 4 + block % 4) * 2 + block / 4] =
            fragments::pack_f16(high, sum - high);
    }
  }

  // Converts the block's columns of all tokens. meanwhile() is called while the first are loaded.
  template <typename Meanwhile>
  __device__ __forceinline__ void put_all(const StridedRows<const uint16_t>& from,
                                          int tokens,
                                          int steps,
                                          const Meanwhile& meanwhile) const {
    constexpr int kAtOnce = 4;
    const int warp = static_cast<int>(threadIdx.x) / kLanes,
              lane = static_cast<int>(threadIdx.x) % kLanes, all = tokens * steps;
    const auto tile_of = [&](int i) { return i * inverse >> 16; };
    if (warp >= all) meanwhile();
    for (int base = warp; base < all; base += kAtOnce * Form::kBlockWarps) {
      uint4 bits[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int i = base + k * Form::kBlockWarps;
        const int tile = tile_of(i), token = i - tile * tokens;
        if (i < all)
          bits[k] =
              *reinterpret_cast<const uint4*>(from[token] + tile * fragments::kColumns + 8 * lane);
      }
      if (base == warp) meanwhile();
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int i = base + k * Form::kBlockWarps;
        if (i >= all) break;
        float v[8];
        unpack(Packed<uint16_t, 8>{{bits[k]}}, v);
        put(v, i - tile_of(i) * tokens, tile_of(i));
      }
    }
  }

  // The same for rows that are normed, but for the factor that result_scales gives: a warp has 256
  // columns of a row at a time. The first block writes the sum.
  template <typename Meanwhile>
  __device__ __forceinline__ void put_normed(const SkinnyGemm& p,
                                             const RowTeam& team,
                                             const Depth& depth,
                                             Squares& squares,
                                             const Meanwhile& meanwhile) const {
    constexpr int kAtOnce = 2;
    const int end = team.is_row ? static_cast<int>(p.in) : 0, step = static_cast<int>(team.step);
    const int first = static_cast<int>(team.first), row = static_cast<int>(team.row);
    float own = 0.0f, delta_scale = 0.0f;
    if (p.delta) {
      for (int i = first; i < end; i += step) {
        float d[8];
        load_floats(p.delta[row] + i, d);
#pragma unroll
        for (int k = 0; k < 8; ++k) own = fmaf(d[k], d[k], own);
      }
      note_squares(squares.of_delta, own);
      __syncthreads();
      delta_scale = norm_scale(p, squares.of_delta, row, team.warps);
      own = 0.0f;
    }
    if (first >= end) meanwhile();
    for (int base = first; base < end; base += kAtOnce * step) {
      Packed<uint16_t, 8> rows[kAtOnce];
      float w[kAtOnce][8];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = base + j * step;
        if (i >= end) break;
        rows[j] = load_packed<8>(p.x[row] + i);
        load_weights(p.norm + i, p.norm_offset, w[j]);
      }
      if (base == first) meanwhile();
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) {
        const int i = base + j * step;
        if (i >= end) break;
        float x[8];
        unpack(rows[j], x);
        if (p.delta) {
          float d[8], of_delta[8];
          load_floats(p.delta[row] + i, d);
          load_weights(p.delta_norm + i, p.norm_offset, of_delta);
#pragma unroll
          for (int k = 0; k < 8; ++k) x[k] = fmaf(d[k] * delta_scale, of_delta[k], x[k]);
          const Packed<uint16_t, 8> rounded = pack<uint16_t, 8>(x);
          if (blockIdx.x == 0) store_packed(p.sum[row] + i, rounded);
          unpack(rounded, x);
        }
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          own = fmaf(x[k], x[k], own);
          x[k] *= w[j][k];
        }
        const int tile = i / fragments::kColumns - depth.begin;
        if (tile >= 0 && tile < depth.steps) put(x, row, tile);
      }
    }
    note_squares(squares.of_row, own);
  }
};

}  // namespace ridge::backends::cuda::skinny_gemm
