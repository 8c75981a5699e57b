// SPDX-License-Identifier: Apache-2.0
// What the backward kernels for Hopper share: the call on the host, row statistics, staging of accumulators. Not a
// kernel; see flash_attention_backward_keys_hopper.cu and flash_attention_backward_queries_hopper.cu.
#pragma once

#include "backends/cuda/kernels/flash_attention_hopper_launch.h"
#include "backends/cuda/kernels/flash_attention_wgmma.cuh"

namespace ridge::backends::cuda {

// Per query head, padded to whole groups of 64 queries: lse in units of log2 (infinite past T, so that a probability
// there is 0) and delta = sum_e o do. Within a group the query at 8 j + 2 t + i stands at 16 t + 2 j + i: what thread
// t of a quad needs beside a transposed accumulator is then 64 neighbouring bytes.
struct RowStatistics {
  static constexpr int kGroup = 64;
  const float* lse_log2;  // [B H, padded]
  const float* delta;     // [B H, padded]
  int padded;

  __host__ __device__ static int place(int query) {
    const int inner = query % kGroup;
    return query - inner + 16 * (inner % 8 / 2) + 2 * (inner / 8) + inner % 2;
  }
};

// One backward call on the host.
struct HopperBackward {
  const AttentionExtents& extents;
  const AttentionBackward& operands;
  RowStatistics statistics;
  cudaStream_t stream;
};

// Where dS goes and what keeps the tiles in order; images is null where the query pass forms the scores again.
struct SpillMemory {
  uint8_t* images = nullptr;
  int ring = 0;           // key heads that fit
  int* stored = nullptr;  // [B K] halves of key tiles done, zero at launch
  int* taken = nullptr;   // [B K] halves of query tiles done, zero at launch
};

cudaError_t launch_backward_keys_hopper(const HopperBackward& call, const SpillMemory& spill, int* next_tile);
cudaError_t launch_backward_queries_hopper(const HopperBackward& call, int* next_tile);
int64_t backward_keys_hopper_pairs(const AttentionExtents& extents);
int64_t backward_queries_hopper_pairs(const AttentionExtents& extents);
int backward_spill_ring(const AttentionExtents& extents);  // key heads that let all tiles run without waiting

namespace hopper {

// Writes a 64 x (8 kCount / 4) accumulator, times `factor`, as bf16 into this warpgroup's 64 rows of a tile of
// `kRows` rows, in the layout that the copy engine expects. `row` is where row 16 (warp) + lane % 16 goes.
template <int kRows, int kCount>
__device__ __forceinline__ void stage_rows(uint32_t rows, int row, int lane, const float (&d)[kCount], float factor) {
  const uint32_t address = rows + row * kRowBytes;
#pragma unroll
  for (int i = 0; i < kCount / 8; ++i) {
    const uint32_t unit = (2 * (i % 4) + lane / 16) ^ (row % 8);
    const float* c = d + 8 * i;
    store_matrices(address + (i / 4) * kRows * kRowBytes + unit * 16, pack_bf16(c[0] * factor, c[1] * factor),
                   pack_bf16(c[2] * factor, c[3] * factor), pack_bf16(c[4] * factor, c[5] * factor),
                   pack_bf16(c[6] * factor, c[7] * factor));
  }
}
__device__ __forceinline__ int own_row(int thread) { return (thread / 32) * 16 + thread % 16; }

// One thread: sends 64 staged rows to tokens `first`.. of a head.
template <int kRows, int kHeadSize>
__device__ __forceinline__ void send_rows(const CUtensorMap* map, uint32_t rows, int first, int head, int batch) {
  for (int chunk = 0; chunk < kHeadSize / kChunkColumns; ++chunk) {
    copy_out(map, rows + chunk * kRows * kRowBytes, first, chunk, head, batch);
  }
  copy_out_commit();
}

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

}  // namespace hopper
}  // namespace ridge::backends::cuda
