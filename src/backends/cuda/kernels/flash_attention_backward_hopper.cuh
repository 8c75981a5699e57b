// SPDX-License-Identifier: Apache-2.0
// What the backward kernels for Hopper share: the call on the host, row statistics, staging of accumulators. Not a
// kernel; see flash_attention_backward_keys_hopper.cu and flash_attention_backward_queries_hopper.cu.
#pragma once

#include "backends/cuda/kernels/flash_attention_hopper_launch.h"
#include "backends/cuda/kernels/flash_attention_wgmma.cuh"

namespace ridge::backends::cuda {

// Per query head, padded to whole groups of 64 queries: -lse in units of log2 (minus infinity past T, so that a
// probability there is 0), and -delta, delta = sum_e o do, which dP starts from. The second lies as the thread t of a
// quad that holds query 8 j + 2 t + i in its transposed accumulators reads it: by j, t, then (i 0, i 1, i 0, i 1).
struct RowStatistics {
  static constexpr int kGroup = 64;
  static constexpr int kLseBytes = 4 * kGroup;
  static constexpr int kDeltaCopies = 2;
  static constexpr int kDeltaBytes = 4 * kGroup * kDeltaCopies;
  const float* minus_lse;    // [B H, padded]
  const float* minus_delta;  // [B H, 2 padded]
  int padded;

  __host__ __device__ static int delta_place(int query) {  // of the first copy; the other is 2 further
    return kDeltaCopies * (query - query % 2) + query % 2;
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

// Writes 64 columns of an accumulator (32 registers), times `factor`, as bf16 rows in the layout that the copy engine
// expects. `row` is where row 16 (warp) + lane % 16 goes.
__device__ __forceinline__ void stage_chunk(uint32_t rows, int row, int lane, const float* d, float factor) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t unit = (2 * i + lane / 16) ^ (row % 8);
    const float* c = d + 8 * i;
    store_matrices(rows + row * kRowBytes + unit * 16, pack_bf16(c[0] * factor, c[1] * factor),
                   pack_bf16(c[2] * factor, c[3] * factor), pack_bf16(c[4] * factor, c[5] * factor),
                   pack_bf16(c[6] * factor, c[7] * factor));
  }
}
// The same for all columns: this warpgroup's 64 rows of a tile of `kRows` rows.
template <int kRows, int kCount>
__device__ __forceinline__ void stage_rows(uint32_t rows, int row, int lane, const float (&d)[kCount], float factor) {
#pragma unroll
  for (int chunk = 0; chunk < kCount / 32; ++chunk) {
    stage_chunk(rows + chunk * kRows * kRowBytes, row, lane, d + 32 * chunk, factor);
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
