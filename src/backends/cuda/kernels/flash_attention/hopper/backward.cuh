// SPDX-License-Identifier: Apache-2.0
// What the backward kernels for Hopper share: the call on the host and the row statistics. Not a
// kernel; see backward_keys.cu and backward_queries.cu.
#pragma once

#include "backends/cuda/kernels/flash_attention/hopper/accumulator.cuh"
#include "backends/cuda/kernels/flash_attention/hopper/launch.h"

namespace ridge::backends::cuda {

// Per query head, padded to whole groups of 64 queries: -lse in units of log2 (minus infinity past
// T, so that a probability there is 0), and -delta, delta = sum_e o do, which dP starts from. The
// second lies as the thread t of a quad that holds query 8 j + 2 t + i in its transposed
// accumulators reads it: by j, t, then (i 0, i 1, i 0, i 1).
struct RowStatistics {
  static constexpr int kGroup = 64;
  static constexpr int kLseBytes = 4 * kGroup;
  static constexpr int kDeltaCopies = 2;
  static constexpr int kDeltaBytes = 4 * kGroup * kDeltaCopies;
  const float* minus_lse;    // [B H, padded]
  const float* minus_delta;  // [B H, 2 padded]
  int padded;

  __host__ __device__ static int delta_place(
      int query) {  // of the first copy; the other is 2 further
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

// Where dS goes and what keeps the tiles in order; images
// is null where the query pass forms the scores again.
struct SpillMemory {
  uint8_t* images = nullptr;
  int ring = 0;           // key heads that fit
  int* stored = nullptr;  // [B K] halves of key tiles done, zero at launch
  int* taken = nullptr;   // [B K] halves of query tiles done, zero at launch
};

cudaError_t launch_backward_keys_hopper(const HopperBackward& call,
                                        const SpillMemory& spill,
                                        int* next_tile);
cudaError_t launch_backward_wide_hopper(const HopperBackward& call,
                                        int* next_tile);  // head size 256
cudaError_t launch_backward_queries_hopper(const HopperBackward& call, int* next_tile);
int64_t backward_keys_hopper_pairs(const AttentionExtents& extents);
int64_t backward_queries_hopper_pairs(const AttentionExtents& extents);
int backward_spill_ring(
    const AttentionExtents& extents);  // key heads that let all tiles run without waiting

}  // namespace ridge::backends::cuda
