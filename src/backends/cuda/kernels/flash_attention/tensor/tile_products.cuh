// SPDX-License-Identifier: Apache-2.0
// Products of a block's 64 rows with tiles of 64 keys or values over a KV cache, in two forms with
// the same accumulators: of a warpgroup (wgmma) on Hopper, of warps (mma.sync) elsewhere. kE are
// the elements of a padded head.
#pragma once

#include "backends/cuda/kernels/device_attribute.h"
#include "backends/cuda/kernels/flash_attention/tensor/cached_tile.cuh"
#include "backends/cuda/kernels/gemm/wgmma_product.cuh"

namespace ridge::backends::cuda::tensor {

constexpr int kKeys = 64;
constexpr int kTiles = kKeys / 8;
static_assert(kRows == kKeys);  // all tiles have 64 rows

// Rows are padded.
template <int kColumns>
struct alignas(16) WarpTile {
  static constexpr int kStride = Tile<Bf16, kColumns>::kStride;
  Bf16 elements[kKeys * kStride];
  static __device__ __forceinline__ int place(int row, int column) {
    return row * kStride + column;
  }
};

// The layout of wgmma_product.cuh.
template <int kColumns>
struct alignas(hopper::kAtomBytes) WarpgroupTile {
  Bf16 elements[kKeys * kColumns];
  static __device__ __forceinline__ int place(int row, int column) {
    constexpr int kChunk = hopper::kChunkColumns;
    return (column / kChunk * kKeys + row) * kChunk + (column % kChunk / 8 ^ row % 8) * 8 +
           column % 8;
  }
};

// Each warp has 16 of the 64 rows.
template <int kE>
struct WarpProducts {
  using Operand = WarpTile<kE>;
  using Weights = WarpTile<kKeys>;
  static __device__ __forceinline__ void publish() {}

  // s[16 rows of the warp, kKeys] = queries times keys; each load returns four matrices of an
  // operand.
  static __device__ __forceinline__ void scores(const Operand& queries,
                                                const Operand& keys,
                                                float (&s)[kTiles][4],
                                                Lane l) {
    constexpr int kStride = Operand::kStride;
    const Bf16* own = left_address(queries.elements + l.row * kStride, kStride);
    const Bf16* streamed = right_address(keys.elements, kStride);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int c = 0; c < 4; ++c) s[j][c] = 0.0f;
    }
#pragma unroll
    for (int step = 0; step < kE / 16; ++step)
      add_products(s, own + 16 * step, streamed + 16 * step, kStride);
  }
  // out[16 rows of the warp, kE] += weights times values.
  static __device__ __forceinline__ void add_values(const float (&weights)[kTiles][4],
                                                    const Operand& values,
                                                    float (&out)[kE / 8][4],
                                                    Lane l) {
    add_weighted<Bf16, kE, kTiles>(weights, values.elements, out, l);
  }
  static __device__ __forceinline__ void add_values(const Weights& weights,
                                                    const Operand& values,
                                                    float (&out)[kE / 8][4],
                                                    Lane l) {
    const Bf16* own = left_address(weights.elements + l.row * Weights::kStride, Weights::kStride);
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      uint32_t a[4];
      load_matrices(a, own + 16 * step);
      add_rows<Bf16, kE>(out, a, values.elements, Operand::kStride, step, l);
    }
  }
};

// The warpgroup reads keys and values once for all rows.
template <int kE>
struct WarpgroupProducts {
  using Operand = WarpgroupTile<kE>;
  using Weights = WarpgroupTile<kKeys>;
  // Call after this thread's writes of operands and before the barrier behind which they are read.
  static __device__ __forceinline__ void publish() { hopper::shared_writes_to_async(); }

  static __device__ __forceinline__ void scores(const Operand& queries,
                                                const Operand& keys,
                                                float (&s)[kTiles][4],
                                                Lane) {
    const uint64_t q = hopper::by_columns(hopper::shared_address(queries.elements)),
                   k = hopper::by_columns(hopper::shared_address(keys.elements));
    auto& sums = reinterpret_cast<float(&)[4 * kTiles]>(s);
    hopper::product_fence();
#pragma unroll
    for (int i = 0; i < kE / 16; ++i)
      hopper::Product<kKeys>::template shared<0, 0>(sums, q + hopper::column_step<kRows>(i),
                                                    k + hopper::column_step<kKeys>(i), i != 0);
    hopper::product_commit();
    hopper::product_wait<0>();
    hopper::pin(sums);
  }
  static __device__ __forceinline__ void add_values(const float (&s)[kTiles][4],
                                                    const Operand& values,
                                                    float (&out)[kE / 8][4],
                                                    Lane) {
    uint32_t weights[kKeys / 16][4];
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) tensor::Product<Bf16>::weights(weights[i], s, i);
    const uint64_t v = hopper::by_rows(hopper::shared_address(values.elements), kKeys);
    multiply(out, [&](int i, auto& sums) {
      hopper::Product<kE>::template registers<1>(sums, weights[i], v + hopper::row_step(i), 1);
    });
  }
  static __device__ __forceinline__ void add_values(const Weights& weights,
                                                    const Operand& values,
                                                    float (&out)[kE / 8][4],
                                                    Lane) {
    const uint64_t w = hopper::by_columns(hopper::shared_address(weights.elements)),
                   v = hopper::by_rows(hopper::shared_address(values.elements), kKeys);
    multiply(out, [&](int i, auto& sums) {
      hopper::Product<kE>::template shared<0, 1>(sums, w + hopper::column_step<kRows>(i),
                                                 v + hopper::row_step(i), 1);
    });
  }

 private:
  // Runs step(i, sums) for each 16 keys, and waits for the sums.
  template <typename Step>
  static __device__ __forceinline__ void multiply(float (&out)[kE / 8][4], const Step& step) {
    auto& sums = reinterpret_cast<float(&)[kE / 2]>(out);
    hopper::product_fence();
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) step(i, sums);
    hopper::product_commit();
    hopper::product_wait<0>();
    hopper::pin(sums);
  }
};

}  // namespace ridge::backends::cuda::tensor
