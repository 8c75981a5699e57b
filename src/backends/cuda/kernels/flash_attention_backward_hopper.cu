// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for Hopper: the row statistics and the order of the passes. The passes themselves are in
// flash_attention_backward_{keys,queries,spilled}_hopper.cu.
//
// dQ wants sums over keys, dK and dV sums over queries. Summing dQ by atomic additions from the key pass is fast but
// takes any order; a fixed order there makes blocks wait for each other. So dQ has a pass of its own: either it forms
// the scores again (7 products instead of 5), or the key pass leaves dS in memory as bf16 for it (5 products, and
// 2 bytes a visited pair written and read).
#include <cuda_bf16.h>

#include "backends/cuda/kernels/flash_attention_backward_hopper.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kStatisticsPad = 128;
constexpr int kStatisticsRows = 64;  // a block's
constexpr int kStatisticsThreads = 256;

struct StatisticsArguments {
  AttentionInput o, d_o;
  const float* lse;
  float* lse_log2;
  float* delta;
  int sequence, heads, padded;
};

// A row takes E / 8 lanes with 16 bytes each. Bound: bytes, o and do once.
template <int kHeadSize>
__global__ void __launch_bounds__(kStatisticsThreads) row_statistics_kernel(const StatisticsArguments p) {
  constexpr int kLanes = kHeadSize / 8;
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
      const uint4 a = *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(p.o.data) + o);
      const uint4 b = *reinterpret_cast<const uint4*>(static_cast<const __nv_bfloat16*>(p.d_o.data) + d_o);
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
      const int64_t place = static_cast<int64_t>(flat_head) * p.padded + row;
      p.delta[place] = sum;
      p.lse_log2[place] =
          row < p.sequence ? p.lse[token * p.heads + head] * kLog2E : __builtin_huge_valf();
    }
  }
}

struct Workspace {
  int64_t statistics_bytes = 0;  // of each of the two
  int64_t counter_bytes = 0;
  int64_t head_bytes = 0;  // dS of one key head's group
  int padded = 0;

  explicit Workspace(const AttentionExtents& extents) {
    padded = ceil_div(static_cast<int>(extents.sequence), kStatisticsPad) * kStatisticsPad;
    statistics_bytes = extents.batch * extents.heads * padded * 4;
    counter_bytes = (2 * extents.batch * extents.kv_heads * 4 + 255) / 256 * 256;
    const SpillLayout layout{visibility_of(extents)};
    head_bytes = extents.heads / extents.kv_heads * layout.images() * SpillLayout::kImageBytes;
  }
  int64_t fixed_bytes() const { return 2 * statistics_bytes + counter_bytes; }
};

cudaError_t launch_row_statistics(const HopperBackward& call, float* lse_log2, float* delta) {
  const AttentionExtents& extents = call.extents;
  const StatisticsArguments p{call.operands.o,
                              call.operands.d_o,
                              call.operands.lse,
                              lse_log2,
                              delta,
                              static_cast<int>(extents.sequence),
                              static_cast<int>(extents.heads),
                              call.statistics.padded};
  const dim3 grid(call.statistics.padded / kStatisticsRows, static_cast<unsigned>(extents.batch * extents.heads));
  if (extents.head_size == 64) {
    row_statistics_kernel<64><<<grid, kStatisticsThreads, 0, call.stream>>>(p);
  } else {
    row_statistics_kernel<128><<<grid, kStatisticsThreads, 0, call.stream>>>(p);
  }
  return cudaGetLastError();
}

}  // namespace

int64_t flash_attention_backward_hopper_workspace_bytes(const AttentionExtents& extents,
                                                        AttentionGradient gradient,
                                                        int64_t spill_limit_bytes) {
  const Workspace workspace(extents);
  if (gradient == AttentionGradient::kRecompute) return workspace.fixed_bytes();
  const int64_t all = extents.batch * extents.kv_heads;
  int64_t heads = spill_limit_bytes / workspace.head_bytes;
  if (heads < 1) heads = 1;
  if (heads > all) heads = all;
  const int64_t rounds = (all + heads - 1) / heads;  // rounds of even size
  return workspace.fixed_bytes() + (all + rounds - 1) / rounds * workspace.head_bytes;
}

cudaError_t launch_flash_attention_backward_hopper(const AttentionExtents& extents,
                                                   const AttentionBackward& operands,
                                                   AttentionGradient gradient,
                                                   void* memory,
                                                   int64_t memory_bytes,
                                                   cudaStream_t stream) {
  const Workspace workspace(extents);
  if (memory_bytes < flash_attention_backward_hopper_workspace_bytes(extents, gradient, 0)) {
    return cudaErrorInvalidValue;
  }
  auto* base = static_cast<uint8_t*>(memory);
  auto* lse_log2 = reinterpret_cast<float*>(base);
  auto* delta = reinterpret_cast<float*>(base + workspace.statistics_bytes);
  auto* counters = reinterpret_cast<int*>(base + 2 * workspace.statistics_bytes);
  uint8_t* spill = base + workspace.fixed_bytes();
  const HopperBackward call{extents, operands, RowStatistics{lse_log2, delta, workspace.padded}, stream};

  cudaError_t status = cudaMemsetAsync(counters, 0, static_cast<size_t>(workspace.counter_bytes), stream);
  if (status != cudaSuccess) return status;
  status = launch_row_statistics(call, lse_log2, delta);
  if (status != cudaSuccess) return status;
  const int all = static_cast<int>(extents.batch * extents.kv_heads);
  if (gradient == AttentionGradient::kRecompute) {
    status = launch_backward_keys_hopper(call, SpillRound{0, all, nullptr}, counters);
    return status != cudaSuccess ? status : launch_backward_queries_hopper(call, counters + 1);
  }
  const int64_t fitting = (memory_bytes - workspace.fixed_bytes()) / workspace.head_bytes;
  const int heads = fitting < all ? static_cast<int>(fitting) : all;
  for (int first = 0; first < all; first += heads) {
    const SpillRound round{first, all - first < heads ? all - first : heads, spill};
    status = launch_backward_keys_hopper(call, round, counters);
    if (status != cudaSuccess) return status;
    status = launch_backward_spilled_hopper(call, round, counters + 1);
    if (status != cudaSuccess) return status;
    counters += 2;
  }
  return cudaSuccess;
}

AttentionPairs flash_attention_backward_hopper_pairs(const AttentionExtents& extents, AttentionGradient gradient) {
  const int64_t keys = backward_keys_hopper_pairs(extents);
  return {keys, gradient == AttentionGradient::kSpill ? keys : backward_queries_hopper_pairs(extents)};
}

}  // namespace ridge::backends::cuda
