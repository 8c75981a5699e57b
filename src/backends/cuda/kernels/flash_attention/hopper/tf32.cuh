// SPDX-License-Identifier: Apache-2.0
// Building blocks of flash attention with Hopper's warpgroup products in TF32 (fp32 in shared
// memory, sums in fp32): the products, the tiles and their stores. The schedules of the passes are
// elsewhere. sm_90a only.
//
// A TF32 product reads both operands along its depth; it supports no transposed operand. So the
// products over rows (of the outputs and of the gradients) are computed as X^T += C^T W^T. C^T is
// loaded into registers from the tile as it was copied. The weights W are written to shared memory
// in the form that the product needs: as columns, each thread's own rows by depth. Every eight of
// that depth are in the order 0 2 4 6 1 3 5 7, so that the words of C that a warp reads, and the
// weights that it writes, lie in different banks.
//
// Tiles are [columns / 32][rows][32] fp32 with the copy engine's 128-byte swizzle.
#pragma once

#include "backends/cuda/kernels/flash_attention/flash_attention.h"
#include "backends/cuda/kernels/flash_attention/schedule.h"
#include "backends/cuda/kernels/gemm/wgmma_product.cuh"

namespace ridge::backends::cuda::hopper {

constexpr int kWords = 32;    // columns of a chunk
constexpr int kOwnRows = 64;  // rows per warpgroup

// Tf32Product<N>: d[64, N] (+)= A[64, 8] B[8, N] with operands by columns; A from shared memory or
// from registers.
template <int kColumns>
struct Tf32Product;

// clang-format off
#define RIDGE_D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
  "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])

// The operands' numbers follow the N / 2 accumulators: I0 to I4.
#define RIDGE_TF32_PRODUCT(N, D, ACCUMULATORS, I0, I1, I2, I3, I4)                                          \
  template <>                                                                                               \
  struct Tf32Product<N> {                                                                                   \
    static __device__ __forceinline__ void shared(float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " I2 ", 0;\n"                                          \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" D "}, " I0 ", " I1 ", p, 1, 1;\n}" \
                   : ACCUMULATORS                                                                           \
                   : "l"(a), "l"(b), "r"(accumulate));                                                      \
    }                                                                                                       \
    static __device__ __forceinline__ void registers(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b) { \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" D "}, "                      \
                   "{" I0 ", " I1 ", " I2 ", " I3 "}, " I4 ", 1, 1, 1;"                                     \
                   : ACCUMULATORS                                                                           \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                   \
    }                                                                                                       \
  };

#define RIDGE_ACCUMULATORS_16 RIDGE_D8(0), RIDGE_D8(8)
#define RIDGE_ACCUMULATORS_32 RIDGE_D8(0), RIDGE_D8(8), RIDGE_D8(16), RIDGE_D8(24)
#define RIDGE_REGISTERS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
RIDGE_TF32_PRODUCT(32, RIDGE_REGISTERS_16, RIDGE_ACCUMULATORS_16, "%16", "%17", "%18", "%19", "%20")
#define RIDGE_REGISTERS_32 RIDGE_REGISTERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
RIDGE_TF32_PRODUCT(64, RIDGE_REGISTERS_32, RIDGE_ACCUMULATORS_32,
                   "%32", "%33", "%34", "%35", "%36")
#undef RIDGE_ACCUMULATORS_16
#undef RIDGE_ACCUMULATORS_32
#undef RIDGE_REGISTERS_16
#undef RIDGE_REGISTERS_32
#undef RIDGE_TF32_PRODUCT
#undef RIDGE_D8
// clang-format on

// A tile of kRows rows by kE columns in shared memory, identified by its address.
template <int kRows, int kE>
struct WordTile {
  static constexpr int kChunkBytes = kRows * kRowBytes;
  static constexpr int kBytes = kE / kWords * kChunkBytes;

  // The 16 bytes that hold columns [column, column + 4) of a row.
  static __device__ __forceinline__ uint32_t vector(uint32_t tile, int row, int column) {
    return tile + column / kWords * kChunkBytes + row * kRowBytes +
           (((column % kWords / 4) ^ (row % 8)) * 16);
  }
};

// d[64, N] = A C^T over kE columns; a has 64 rows, c has N rows.
template <int kE, int kColumns>
__device__ __forceinline__ void score_product(float (&d)[kColumns / 2], uint32_t a, uint32_t c) {
  const uint64_t left = by_columns(a), right = by_columns(c);
#pragma unroll
  for (int step = 0; step < kE / 8; ++step)
    Tf32Product<kColumns>::shared(d, left + column_step<kOwnRows>(step),
                                  right + column_step<kColumns>(step), step > 0);
}

// The offsets of this thread's words in a transposed tile, and of its weights.
struct DepthOrder {
  uint32_t words[2][2];  // offset for (even, odd) depth and for rows (g, g + 8) of its warp's 16
  int group, place, warp;

  __device__ __forceinline__ explicit DepthOrder(int thread) {
    const int lane = thread % 32;
    warp = thread / 32;
    group = lane / 4;
    place = lane % 4;
#pragma unroll
    for (int odd = 0; odd < 2; ++odd) {
#pragma unroll
      for (int low = 0; low < 2; ++low) {
        const int row = 2 * place + odd, chunk = warp % 2 * 4 + 2 * low + group / 4;
        words[odd][low] =
            static_cast<uint32_t>(row * kRowBytes + (chunk ^ row) * 16 + group % 4 * 4);
      }
    }
  }
};

__device__ __forceinline__ uint32_t load_word(uint32_t address) {
  uint32_t value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ void store_word(uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

// Stores weights of 64 rows by a depth of kStreamRows as [kStreamRows / 32][64][32]; w is a score
// accumulator.
template <int kStreamRows>
__device__ __forceinline__ void store_weights(uint32_t weights,
                                              const float (&w)[kStreamRows / 2],
                                              const DepthOrder& at) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const uint32_t row =
        weights +
        static_cast<uint32_t>((16 * at.warp + at.group + 8 * r) * kRowBytes + 4 * at.place);
#pragma unroll
    for (int j = 0; j < kStreamRows / 8; ++j) {
#pragma unroll
      for (int odd = 0; odd < 2; ++odd)
        store_word(row + j / 4 * kOwnRows * kRowBytes + (((2 * (j % 4) + odd) ^ at.group) * 16),
                   w[4 * j + 2 * r + odd]);
    }
  }
}

// x[m] += the transposed columns [64 m, 64 m + 64) of `streamed` (kStreamRows rows) times the
// weights: x^T has kE rows by the warpgroup's 64. Commits the products; the registers hold their
// operands until they are done.
template <int kE, int kStreamRows>
struct TransposedProduct {
  uint32_t a[kE / 64][kStreamRows / 8][4];

  __device__ __forceinline__ void load(uint32_t streamed, const DepthOrder& at) {
    const uint32_t tile = streamed + static_cast<uint32_t>(at.warp / 2 * kStreamRows * kRowBytes);
#pragma unroll
    for (int m = 0; m < kE / 64; ++m) {
#pragma unroll
      for (int step = 0; step < kStreamRows / 8; ++step) {
        const uint32_t rows =
            tile + static_cast<uint32_t>((2 * m * kStreamRows + 8 * step) * kRowBytes);
#pragma unroll
        for (int i = 0; i < 4; ++i) a[m][step][i] = load_word(rows + at.words[i / 2][i % 2]);
      }
    }
  }
  __device__ __forceinline__ void run(float (&x)[kE / 64][32], uint32_t weights) {
    const uint64_t right = by_columns(weights);
#pragma unroll
    for (int step = 0; step < kStreamRows / 8; ++step) {
#pragma unroll
      for (int m = 0; m < kE / 64; ++m)
        Tf32Product<64>::registers(x[m], a[m][step], right + column_step<kOwnRows>(step));
    }
    product_commit();
  }
};

// Writes x^T times `factor(row)` to rows [first, ...) of a head, for the warpgroup's 64 rows.
template <int kE, typename Factor>
__device__ __forceinline__ void store_transposed(const AttentionOutput& to,
                                                 int64_t first_token,
                                                 int head,
                                                 int first,
                                                 int sequence,
                                                 const float (&x)[kE / 64][32],
                                                 const DepthOrder& at,
                                                 const Factor& factor) {
  float* data = static_cast<float*>(to.data) + first_token * to.token_stride +
                head * to.head_stride + 16 * at.warp + at.group;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int row = 8 * j + 2 * at.place + c;
      if (first + row >= sequence) continue;
      float* line = data + (first + row) * to.token_stride;
      const float times = factor(row);
#pragma unroll
      for (int m = 0; m < kE / 64; ++m) {
        line[64 * m] = x[m][4 * j + c] * times;
        line[64 * m + 8] = x[m][4 * j + 2 + c] * times;
      }
    }
  }
}

}  // namespace ridge::backends::cuda::hopper
