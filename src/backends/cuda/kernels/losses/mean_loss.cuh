// SPDX-License-Identifier: Apache-2.0
// The mean of the losses of counted rows: one block, in double, in a fixed order. The caller
// supplies a row's loss.
#pragma once

#include "backends/cuda/kernels/index_check.cuh"

namespace ridge::backends::cuda {

inline constexpr int kMeanThreads = 1024;

struct LossSum {
  double sum;
  int32_t count;
};

// All lanes get the result.
__device__ __forceinline__ LossSum reduce_lanes(LossSum part) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) {
    part.sum += shuffle_xor(part.sum, mask);
    part.count += shuffle_xor(part.count, mask);
  }
  return part;
}

// Called by every thread of a block of kThreads; all get the result.
template <int kThreads>
__device__ __forceinline__ LossSum reduce_losses(LossSum part) {
  constexpr int kWarps = kThreads / kLanes;
  __shared__ double sums[kWarps];
  __shared__ int32_t counts[kWarps];
  part = reduce_lanes(part);
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  if (lane == 0) {
    sums[threadIdx.x / kLanes] = part.sum;
    counts[threadIdx.x / kLanes] = part.count;
  }
  __syncthreads();
  return reduce_lanes(lane < kWarps ? LossSum{sums[lane], counts[lane]} : LossSum{0.0, 0});
}

// Called by every thread of a block; thread 0 must hold the complete sum.
__device__ __forceinline__ void write_mean_loss(LossSum all, float* loss, int32_t* count) {
  if (threadIdx.x != 0) return;
  *count = all.count;
  *loss = all.count == 0 ? 0.0f : static_cast<float>(all.sum / all.count);
}

// Mapping: thread t takes rows t, t + 1024, ..., with eight loads in flight. `loss_of(row, label)`
// is called for all rows, with -1 for a row that is not counted, for which it must return 0. Bound:
// latency, N / 8192 round trips and one reduction.
template <typename LossOf>
__device__ __forceinline__ void write_mean_loss(const int32_t* labels,
                                                int64_t tokens,
                                                int64_t vocabulary,
                                                int32_t* bad_row,
                                                float* loss,
                                                int32_t* count,
                                                const LossOf& loss_of) {
  constexpr int kInFlight = 8;
  LossSum part{0.0, 0};
  for (int64_t first = threadIdx.x; first < tokens; first += kInFlight * kMeanThreads) {
    int32_t label[kInFlight];
    double of[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t row = first + k * kMeanThreads;
      label[k] = row < tokens ? labels[row] : -1;
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t row = first + k * kMeanThreads;
      of[k] = row < tokens ? loss_of(row, checked_index(label[k], vocabulary)) : 0.0;
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t row = first + k * kMeanThreads;
      if (row < tokens) note_bad_row(label[k], vocabulary, row, bad_row);
      label[k] = checked_index(label[k], vocabulary);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      part.sum += of[k];
      part.count += label[k] < 0 ? 0 : 1;
    }
  }
  write_mean_loss(reduce_losses<kMeanThreads>(part), loss, count);
}

}  // namespace ridge::backends::cuda
