// SPDX-License-Identifier: Apache-2.0
// Operations of the Hopper attention kernels on a warpgroup's accumulators and register operands
// between products: mask scores, pack, load operands, and stage results for the copy engine (TMA).
// Layouts are those of wgmma_product.cuh.
#pragma once

#include "backends/cuda/kernels/flash_attention/schedule.h"
#include "backends/cuda/kernels/gemm/wgmma_product.cuh"

namespace ridge::backends::cuda::hopper {

constexpr float kInfinity = __builtin_huge_valf();

template <int kCount>
__device__ __forceinline__ void clear(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) d[i] = 0.0f;
}
template <int kCount>
__device__ __forceinline__ void clear(uint32_t (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) d[i] = 0;
}

// Packs an accumulator as the left operand of the next product.
template <int kCount>
__device__ __forceinline__ void pack(const float (&s)[kCount], uint32_t (&packed)[kCount / 2]) {
#pragma unroll
  for (int j = 0; j < kCount / 2; ++j) packed[j] = pack_bf16(s[2 * j], s[2 * j + 1]);
}

// Masks scores of queries (rows) and keys (columns): sets them to -inf where the query must not
// attend to the key. `row` is this thread's first query, `column` its first key.
template <int kCount, class V>
__device__ __forceinline__ void hide_keys(float (&s)[kCount], const V& v, int row, int column) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = row + 8 * r;
    const int end = v.causal ? min(v.sequence, query + 1) : v.sequence;
    int begin = v.window > 0 ? query - v.window + 1 : 0;
    if constexpr (V::kDocuments) begin = max(begin, v.document_first(query));
#pragma unroll
    for (int j = 0; j < kCount; j += 4) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int key = column + 2 * j + c;
        if (key >= end || key < begin) s[j + 2 * r + c] = -kInfinity;
      }
    }
  }
}

// A tile for rows that documents share. It is compiled apart: the registers that documents take
// slow tiles without them down by up to a tenth.
template <class Tile>
struct WithDocuments : Tile {
  static constexpr bool kDocuments = true;
};

template <class Tile>
__device__ __forceinline__ decltype(auto) row_visibility(const DocumentVisibility& all, int batch) {
  if constexpr (Tile::kDocuments)
    return all.in_row(batch);
  else
    return static_cast<const Visibility&>(all);
}

// Masks scores of keys (rows) and queries (columns) of different documents. `key` is this thread's
// first key, `query` its first query.
template <int kCount>
__device__ __forceinline__ void hide_other_documents(float (&s)[kCount],
                                                     const DocumentVisibility& v,
                                                     int key,
                                                     int query) {
#pragma unroll
  for (int j = 0; j < kCount; j += 4) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int first = v.document_first(query + 2 * j + c);
#pragma unroll
      for (int r = 0; r < 2; ++r)
        if (key + 8 * r < first) s[j + 2 * r + c] = -kInfinity;
    }
    // Few loads at a time, for want of registers.
    asm volatile("" ::: "memory");
  }
}

// Masks scores of keys (rows) and queries (columns), as hide_keys does.
template <int kCount, class V>
__device__ __forceinline__ void hide_queries(float (&s)[kCount], const V& v, int key, int query) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = key + 8 * r;
    const int begin = row >= v.sequence ? 0x7fffffff : (v.causal ? row : 0);
    const int end = v.window > 0 ? row + v.window : 0x7fffffff;
#pragma unroll
    for (int j = 0; j < kCount; j += 4) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = query + 2 * j + c;
        if (column < begin || column >= end) s[j + 2 * r + c] = -kInfinity;
      }
    }
  }
  if constexpr (V::kDocuments)
    if (v.positions != nullptr) hide_other_documents(s, v, key, query);
}

// The row that this thread's lane (modulo 16) addresses in matrix loads and stores, among the 64
// rows of its warpgroup.
__device__ __forceinline__ int own_row(int thread) { return (thread / 32) * 16 + thread % 16; }

// Writes 64 columns of an accumulator (32 registers), multiplied by a factor for each of the
// thread's two rows, as bf16 rows in the layout that the copy engine expects.
__device__ __forceinline__ void stage_chunk(uint32_t rows,
                                            int thread,
                                            const float* d,
                                            float low_factor,
                                            float high_factor) {
  const int lane = thread % 32;
  const int row = own_row(thread);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t unit = (2 * i + lane / 16) ^ (row % 8);
    const float* c = d + 8 * i;
    store_matrices(rows + row * kRowBytes + unit * 16,
                   pack_bf16(c[0] * low_factor, c[1] * low_factor),
                   pack_bf16(c[2] * high_factor, c[3] * high_factor),
                   pack_bf16(c[4] * low_factor, c[5] * low_factor),
                   pack_bf16(c[6] * high_factor, c[7] * high_factor));
  }
}

// The same for all columns: the 64 rows of a warpgroup in a tile of kRows rows.
template <int kRows, int kCount>
__device__ __forceinline__ void stage_rows(uint32_t rows,
                                           int thread,
                                           const float (&d)[kCount],
                                           float factor) {
#pragma unroll
  for (int chunk = 0; chunk < kCount / 32; ++chunk) {
    stage_chunk(rows + chunk * kRows * kRowBytes, thread, d + 32 * chunk, factor, factor);
  }
}

// Called by one thread: copies 64 staged rows to the tokens of a head from `first` on.
template <int kRows, int kHeadSize>
__device__ __forceinline__ void send_rows(const CUtensorMap* map,
                                          uint32_t rows,
                                          int first,
                                          int head,
                                          int batch) {
#pragma unroll
  for (int chunk = 0; chunk < kHeadSize / kChunkColumns; ++chunk) {
    copy_out(map, rows + chunk * kRows * kRowBytes, first, chunk, head, batch);
  }
  copy_out_commit();
}

}  // namespace ridge::backends::cuda::hopper
