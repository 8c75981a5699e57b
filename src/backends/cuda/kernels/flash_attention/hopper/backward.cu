// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper: the row statistics and the order of the passes. The passes
// themselves are in backward_{keys,queries,wide}.cu.
//
// dQ needs sums over keys, dK and dV need sums over queries. Adding to dQ with atomics in the key
// pass is fast, but the order of additions is arbitrary, and a fixed order makes blocks wait for
// each other. So dQ has its own pass: either the pass recomputes the scores (7 products instead of
// 5), or the key tiles store dS in memory as bf16 for it (5 products, and 2 bytes per visited pair
// written and read).
#include <cuda_bf16.h>

#include "backends/cuda/kernels/flash_attention/hopper/backward.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kStatisticsPad = 128;
constexpr int kLeadingCounters = 8;
constexpr int kStatisticsRows = 64;  // rows per block
constexpr int kStatisticsThreads = 256;

struct StatisticsArguments {
  AttentionInput o, d_o;
  const float* lse;
  float* minus_lse;
  float* minus_delta;
  int* counters;  // counters of the following launches, set to zero here
  int counter_count;
  int sequence, heads, padded;
};

// A row takes E / 8 lanes with 16 bytes each. Bound: memory, o and do once.
template <int kHeadSize>
__global__ void __launch_bounds__(kStatisticsThreads)
    row_statistics_kernel(const StatisticsArguments p) {
  constexpr int kLanes = kHeadSize / 8;
  if (threadIdx.x == 0) hopper::grid_launch_dependents();
  if (blockIdx.x == 0 && blockIdx.y == 0) {
    for (int i = threadIdx.x; i < p.counter_count; i += kStatisticsThreads) p.counters[i] = 0;
  }
  const int flat_head = blockIdx.y;
  const int batch = flat_head / p.heads;
  const int head = flat_head - batch * p.heads;
  const int lane = threadIdx.x % kLanes;
#pragma unroll
  for (int r = threadIdx.x / kLanes; r < kStatisticsRows; r += kStatisticsThreads / kLanes) {
    const int row = blockIdx.x * kStatisticsRows + r;
    float sum = 0.0f;
    const int64_t token = static_cast<int64_t>(batch) * p.sequence + row;
    if (row < p.sequence) {
      const int64_t o = token * p.o.token_stride + head * p.o.head_stride + 8 * lane;
      const int64_t d_o = token * p.d_o.token_stride + head * p.d_o.head_stride + 8 * lane;
      const uint4 a =
          *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(p.o.data) + o);
      const uint4 b =
          *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(p.d_o.data) + d_o);
      const uint32_t x[4] = {a.x, a.y, a.z, a.w};
      const uint32_t y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        sum = fmaf(__uint_as_float(x[i] << 16), __uint_as_float(y[i] << 16), sum);
        sum = fmaf(__uint_as_float(x[i] & 0xffff0000u), __uint_as_float(y[i] & 0xffff0000u), sum);
      }
    }
#pragma unroll
    for (int step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (lane == 0) {
      const int64_t rows = static_cast<int64_t>(flat_head) * p.padded;
      p.minus_lse[rows + row] =
          row < p.sequence ? -p.lse[token * p.heads + head] * kLog2E : -__builtin_huge_valf();
      float* delta =
          p.minus_delta + RowStatistics::kDeltaCopies * rows + RowStatistics::delta_place(row);
      delta[0] = -sum;
      delta[2] = -sum;
    }
  }
}

// The workspace consists of lse and delta, counters (the next tile of two launches, then for each
// key head how many tiles are stored and taken), and dS images.
struct Workspace {
  int64_t lse_bytes = 0;
  int64_t delta_bytes = 0;
  int64_t counter_bytes = 0;
  int64_t head_bytes = 0;  // dS of one key head's group
  int padded = 0;
  int heads = 0;  // key heads over all sequences

  explicit Workspace(const AttentionExtents& extents) {
    padded = ceil_div(static_cast<int>(extents.sequence), kStatisticsPad) * kStatisticsPad;
    heads = static_cast<int>(extents.batch * extents.kv_heads);
    lse_bytes = extents.batch * extents.heads * padded * 4;
    delta_bytes = lse_bytes * RowStatistics::kDeltaCopies;
    counter_bytes = (kLeadingCounters + 2 * int64_t{heads}) * 4;
    counter_bytes = (counter_bytes + 255) / 256 * 256;
    const SpillLayout layout{visibility_of(extents)};
    head_bytes = extents.heads / extents.kv_heads * layout.images() * SpillLayout::kImageBytes;
  }
  int64_t fixed_bytes() const { return lse_bytes + delta_bytes + counter_bytes; }
};

// The key pass for head size 256 does not spill.
AttentionGradient effective(const AttentionExtents& extents, AttentionGradient gradient) {
  return extents.head_size == 256 ? AttentionGradient::kRecompute : gradient;
}

cudaError_t launch_row_statistics(const HopperBackward& call,
                                  float* minus_lse,
                                  float* minus_delta,
                                  int* counters,
                                  int counter_count) {
  const AttentionExtents& extents = call.extents;
  const StatisticsArguments p{call.operands.o,
                              call.operands.d_o,
                              call.operands.lse,
                              minus_lse,
                              minus_delta,
                              counters,
                              counter_count,
                              static_cast<int>(extents.sequence),
                              static_cast<int>(extents.heads),
                              call.statistics.padded};
  const dim3 grid(call.statistics.padded / kStatisticsRows,
                  static_cast<unsigned>(extents.batch * extents.heads));
  if (extents.head_size == 64) {
    row_statistics_kernel<64><<<grid, kStatisticsThreads, 0, call.stream>>>(p);
  } else if (extents.head_size == 128) {
    row_statistics_kernel<128><<<grid, kStatisticsThreads, 0, call.stream>>>(p);
  } else {
    row_statistics_kernel<256><<<grid, kStatisticsThreads, 0, call.stream>>>(p);
  }
  return cudaGetLastError();
}

}  // namespace

int64_t flash_attention_backward_hopper_workspace_bytes(const AttentionExtents& extents,
                                                        AttentionGradient gradient,
                                                        int64_t spill_limit_bytes) {
  const Workspace workspace(extents);
  if (effective(extents, gradient) == AttentionGradient::kRecompute) return workspace.fixed_bytes();
  int64_t ring = backward_spill_ring(extents);
  if (ring > spill_limit_bytes / workspace.head_bytes)
    ring = spill_limit_bytes / workspace.head_bytes;
  return workspace.fixed_bytes() + (ring < 1 ? 1 : ring) * workspace.head_bytes;
}

cudaError_t launch_flash_attention_backward_hopper(const AttentionExtents& extents,
                                                   const AttentionBackward& operands,
                                                   AttentionGradient gradient,
                                                   void* memory,
                                                   int64_t memory_bytes,
                                                   cudaStream_t stream) {
  const Workspace workspace(extents);
  auto* base = static_cast<uint8_t*>(memory);
  auto* minus_lse = reinterpret_cast<float*>(base);
  auto* minus_delta = reinterpret_cast<float*>(base + workspace.lse_bytes);
  auto* counters = reinterpret_cast<int*>(base + workspace.lse_bytes + workspace.delta_bytes);
  const HopperBackward call{extents, operands,
                            RowStatistics{minus_lse, minus_delta, workspace.padded}, stream};
  cudaError_t status = launch_row_statistics(call, minus_lse, minus_delta, counters,
                                             static_cast<int>(workspace.counter_bytes / 4));
  if (status != cudaSuccess) return status;
  if (effective(extents, gradient) == AttentionGradient::kRecompute) {
    status = extents.head_size == 256 ? launch_backward_wide_hopper(call, counters)
                                      : launch_backward_keys_hopper(call, SpillMemory{}, counters);
    return status != cudaSuccess ? status : launch_backward_queries_hopper(call, counters + 1);
  }
  const int64_t fitting = (memory_bytes - workspace.fixed_bytes()) / workspace.head_bytes;
  SpillMemory spill;
  spill.images = base + workspace.fixed_bytes();
  spill.ring = fitting < workspace.heads ? static_cast<int>(fitting) : workspace.heads;
  spill.stored = counters + kLeadingCounters;
  spill.taken = spill.stored + workspace.heads;
  return launch_backward_keys_hopper(call, spill, counters);
}

AttentionPairs flash_attention_backward_hopper_pairs(const AttentionExtents& extents,
                                                     AttentionGradient gradient) {
  const int64_t keys = backward_keys_hopper_pairs(extents);
  return {keys, effective(extents, gradient) == AttentionGradient::kSpill
                    ? keys
                    : backward_queries_hopper_pairs(extents)};
}

}  // namespace ridge::backends::cuda
