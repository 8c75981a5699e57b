// SPDX-License-Identifier: Apache-2.0
// Shared by the backward kernels for Hopper: the arguments on the host, and the row statistics. The
// kernels are in backward_keys.cu, backward_queries.cu and backward_wide.cu.
#pragma once

#include "backends/cuda/kernels/flash_attention/hopper/accumulator.cuh"
#include "backends/cuda/kernels/flash_attention/hopper/launch.h"

namespace ridge::backends::cuda {

// Per query head, padded to whole groups of 64 queries: -lse in units of log2 (minus infinity past
// T, so that a probability there is 0), and -delta with delta = sum_e o do, from which dP starts.
// The -delta values are ordered for a thread t of a quad, which holds query 8 j + 2 t + i in its
// transposed accumulators: by j, t, then (i 0, i 1, i 0, i 1).
struct RowStatistics {
  static constexpr int kGroup = 64;
  static constexpr int kLseBytes = 4 * kGroup;
  static constexpr int kDeltaCopies = 2;
  static constexpr int kDeltaBytes = 4 * kGroup * kDeltaCopies;
  const float* minus_lse;    // [B H, padded]
  const float* minus_delta;  // [B H, 2 padded]
  int padded;

  // Index of the first copy; the second copy is 2 further.
  __host__ __device__ static int delta_place(int query) {
    return kDeltaCopies * (query - query % 2) + query % 2;
  }
};

// The arguments of a backward call on the host.
struct HopperBackward {
  const AttentionExtents& extents;
  const AttentionBackward& operands;
  RowStatistics statistics;
  cudaStream_t stream;
};

// The memory for dS, and the counters that keep the tiles in order. `images` is null if the query
// pass recomputes the scores.
struct SpillMemory {
  uint8_t* images = nullptr;
  int ring = 0;           // number of key heads that fit
  int* stored = nullptr;  // [B K] finished halves of key tiles, zero at launch
  int* taken = nullptr;   // [B K] finished halves of query tiles, zero at launch
};

cudaError_t launch_backward_keys_hopper(const HopperBackward& call,
                                        const SpillMemory& spill,
                                        int* next_tile);
// Head size 256.
cudaError_t launch_backward_wide_hopper(const HopperBackward& call, int* next_tile);
cudaError_t launch_backward_queries_hopper(const HopperBackward& call, int* next_tile);
int64_t backward_keys_hopper_pairs(const AttentionExtents& extents);
int64_t backward_queries_hopper_pairs(const AttentionExtents& extents);
// The number of key heads with which all tiles run without waiting.
int backward_spill_ring(const AttentionExtents& extents);

}  // namespace ridge::backends::cuda
