// SPDX-License-Identifier: Apache-2.0
// What the backward kernels for Hopper share: row statistics, masks on transposed scores, staging of accumulators.
// Not a kernel; see flash_attention_backward_keys_hopper.cu and flash_attention_backward_queries_hopper.cu.
#pragma once

#include "backends/cuda/kernels/flash_attention_hopper_launch.h"
#include "backends/cuda/kernels/flash_attention_wgmma.cuh"

namespace ridge::backends::cuda {

// Per query head, padded to kStatisticsPad queries: lse in units of log2 (infinite past T, so that a probability
// there is 0) and delta = sum_e o do.
struct RowStatistics {
  const float* lse_log2;  // [B H, padded]
  const float* delta;     // [B H, padded]
  int padded;
};

// One backward call on the host.
struct HopperBackward {
  const AttentionExtents& extents;
  const AttentionBackward& operands;
  RowStatistics statistics;
  cudaStream_t stream;
};

// Key heads that run together, numbered b K + key head, and where their dS goes (null: nowhere).
struct SpillRound {
  int first_head = 0;
  int heads = 0;
  uint8_t* spill = nullptr;
};

cudaError_t launch_backward_keys_hopper(const HopperBackward& call, const SpillRound& round, int* next_tile);
cudaError_t launch_backward_queries_hopper(const HopperBackward& call, int* next_tile);
cudaError_t launch_backward_spilled_hopper(const HopperBackward& call, const SpillRound& round, int* next_tile);
int64_t backward_keys_hopper_pairs(const AttentionExtents& extents);
int64_t backward_queries_hopper_pairs(const AttentionExtents& extents);

// The grid of a kernel that takes tiles in turn: `blocks` as many as fit at once. Returns the counter it must use,
// zero at launch, or null where every tile has a block.
inline int* tile_counter(int tiles, int* next_tile, int* blocks) {
  const int places = multiprocessors();
  *blocks = tiles < places ? tiles : places;
  return tiles > places ? next_tile : nullptr;
}

// Takes the next tile's number from the producer's slots; shared by the backward kernels.
struct TileSlots {
  uint64_t full[2], empty[2];
  int tile[2];
};

namespace hopper {

// Writes a 64 x (8 kCount / 4) accumulator, times `factor`, as bf16 into this warpgroup's 64 rows of a tile of
// `kRows` rows, in the layout that the copy engine expects.
template <int kRows, int kCount>
__device__ __forceinline__ void stage_rows(uint8_t* rows, int thread, const float (&d)[kCount], float factor) {
  const int lane = thread % 32;
  const int row = (thread / 32) * 16 + lane % 16;
  const uint32_t address = shared_address(rows) + row * kRowBytes;
#pragma unroll
  for (int i = 0; i < kCount / 8; ++i) {
    const uint32_t unit = (2 * (i % 4) + lane / 16) ^ (row % 8);
    const float* c = d + 8 * i;
    store_matrices(address + (i / 4) * kRows * kRowBytes + unit * 16,
                   pack_bf16(c[0] * factor, c[1] * factor), pack_bf16(c[2] * factor, c[3] * factor),
                   pack_bf16(c[4] * factor, c[5] * factor), pack_bf16(c[6] * factor, c[7] * factor));
  }
}

// One thread: sends 64 staged rows to tokens `first`.. of a head.
template <int kRows, int kHeadSize>
__device__ __forceinline__ void send_rows(
    const CUtensorMap* map, const uint8_t* rows, int first, int head, int batch) {
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

}  // namespace hopper
}  // namespace ridge::backends::cuda
