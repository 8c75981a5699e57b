// SPDX-License-Identifier: Apache-2.0
// Operations of a warpgroup on tiles of 64 rows that lie completely in shared memory, for bf16 and
// for fp32 as TF32: products that give scores, sums of weighted rows, and stores. The kernel is in
// backward_resident.cu. sm_90a only.
#pragma once

#include <cuda_bf16.h>

#include "backends/cuda/kernels/flash_attention/hopper/tf32.cuh"

namespace ridge::backends::cuda::hopper {

// GradientSum holds x[64, kE] of a warpgroup as floats in registers; the order of its elements
// depends on the type.
template <int kE>
struct Bf16Tiles {
  using Element = __nv_bfloat16;
  static constexpr DType kDType = DType::kBF16;
  static constexpr int kBytes = kOwnRows * kE * 2;
  static constexpr int kWeightBytes = 0;  // weights stay in registers
  struct GradientSum {
    float x[kE / 2] = {};
  };

  static __device__ __forceinline__ void scores(float (&d)[32], uint32_t own, uint32_t streamed) {
#pragma unroll
    for (int step = 0; step < kE / 16; ++step)
      Product<64>::shared<0, 0>(d, by_columns(own) + column_step<kOwnRows>(step),
                                by_columns(streamed) + column_step<kOwnRows>(step), step > 0);
    product_commit();
  }

  // sum += w times the rows of a tile. The products run asynchronously until they are waited for.
  struct Weighted {
    uint32_t words[16];
    __device__ __forceinline__ void add(GradientSum& sum,
                                        const float (&w)[32],
                                        uint32_t streamed,
                                        uint32_t,
                                        int) {
#pragma unroll
      for (int i = 0; i < 16; ++i) words[i] = pack_bf16(w[2 * i], w[2 * i + 1]);
      product_fence();
#pragma unroll
      for (int step = 0; step < kOwnRows / 16; ++step)
        Product<kE>::template registers<1>(sum.x, words + 4 * step,
                                           by_rows(streamed, kOwnRows) + row_step(step), 1);
      product_commit();
    }
  };

  static __device__ __forceinline__ void store(const AttentionOutput& to,
                                               int64_t first_token,
                                               int head,
                                               int first,
                                               int sequence,
                                               const GradientSum& sum,
                                               float scale) {
    const int thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + thread / 32 * 16 + thread % 32 / 4 + 8 * r;
      if (row >= sequence) continue;
      auto* line = static_cast<__nv_bfloat16*>(to.data) + (first_token + row) * to.token_stride +
                   head * to.head_stride + thread % 4 * 2;
#pragma unroll
      for (int j = 0; j < kE / 8; ++j)
        *reinterpret_cast<uint32_t*>(line + 8 * j) =
            pack_bf16(sum.x[4 * j + 2 * r] * scale, sum.x[4 * j + 2 * r + 1] * scale);
    }
  }

  static __device__ __forceinline__ float dot(uint4 x, uint4 y) {
    const uint32_t a[4] = {x.x, x.y, x.z, x.w}, b[4] = {y.x, y.y, y.z, y.w};
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum = fmaf(__uint_as_float(a[i] << 16), __uint_as_float(b[i] << 16), sum);
      sum = fmaf(__uint_as_float(a[i] & 0xffff0000u), __uint_as_float(b[i] & 0xffff0000u), sum);
    }
    return sum;
  }
};

template <int kE>
struct Tf32Tiles {
  using Element = float;
  static constexpr DType kDType = DType::kF32;
  static constexpr int kBytes = kOwnRows * kE * 4;
  static constexpr int kWeightBytes = kOwnRows * kOwnRows * 4;  // per warpgroup
  struct GradientSum {
    float x[kE / 2] = {};  // transposed
  };

  static __device__ __forceinline__ void scores(float (&d)[32], uint32_t own, uint32_t streamed) {
    score_product<kE, kOwnRows>(d, own, streamed);
    product_commit();
  }

  struct Weighted {
    TransposedProduct<kE, kOwnRows> product;
    __device__ __forceinline__ void add(GradientSum& sum,
                                        const float (&w)[32],
                                        uint32_t streamed,
                                        uint32_t weights,
                                        int barrier) {
      const DepthOrder at(static_cast<int>(threadIdx.x) % kWarpgroupThreads);
      // Wait until the previous products have read the weights.
      product_wait<0>();
      pin(sum.x);
      named_sync(barrier, kWarpgroupThreads);
      store_weights<kOwnRows>(weights, w, at);
      shared_writes_to_async();
      product.load(streamed, at);
      named_sync(barrier, kWarpgroupThreads);
      product_fence();
      product.run(reinterpret_cast<float(&)[kE / 64][32]>(sum.x), weights);
    }
  };

  static __device__ __forceinline__ void store(const AttentionOutput& to,
                                               int64_t first_token,
                                               int head,
                                               int first,
                                               int sequence,
                                               const GradientSum& sum,
                                               float scale) {
    const DepthOrder at(static_cast<int>(threadIdx.x) % kWarpgroupThreads);
    store_transposed<kE>(to, first_token, head, first, sequence,
                         reinterpret_cast<const float(&)[kE / 64][32]>(sum.x), at,
                         [&](int) { return scale; });
  }

  static __device__ __forceinline__ float dot(uint4 x, uint4 y) {
    return __uint_as_float(x.x) * __uint_as_float(y.x) +
           __uint_as_float(x.y) * __uint_as_float(y.y) +
           __uint_as_float(x.z) * __uint_as_float(y.z) +
           __uint_as_float(x.w) * __uint_as_float(y.w);
  }
};

}  // namespace ridge::backends::cuda::hopper
