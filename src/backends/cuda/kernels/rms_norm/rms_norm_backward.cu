// SPDX-License-Identifier: Apache-2.0
// Gradient of RMS norm: rows are held in registers, and the weight's gradient is one partial sum
// per block, added up in block order. Few rows use rms_norm_backward_short.cu.
#include <algorithm>

#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/last_blocks.cuh"
#include "backends/cuda/kernels/reduce/reduce.h"
#include "backends/cuda/kernels/rms_norm/rms_norm.h"
#include "backends/cuda/kernels/rms_norm/rms_norm_backward_short.h"
#include "backends/cuda/kernels/row_group.cuh"

namespace ridge::backends::cuda {
namespace {

// The number of partial sums, and so of blocks: one on each of 132 multiprocessors, as large as the
// registers allow. A constant, because the order of summation must not depend on the device. With
// smaller blocks the last ones arrive late and have much to add up: 792 blocks of 128 threads took
// 8 of 26 us for that, for 8192 rows of 1024 columns.
constexpr int64_t kMostBlocks = 132;
// For widths and alignments that vectors do not fit.
constexpr int64_t kMostPartials = 264;

// The last blocks add up the partial sums: each takes 16 columns at a time, whose rows are split
// among the block's threads in a fixed way. Bound: latency, two or three round trips to L2.
constexpr int kSumColumns = 16;
constexpr int kMostFinishers = 128;

template <int kThreads>
__device__ __forceinline__ void add_partials(const float* workspace,
                                             float* d_weight,
                                             int32_t* tickets,
                                             int64_t width) {
  constexpr int kDeep = kThreads / kSumColumns;
  constexpr int kRound = 32;
  __shared__ float sums[kDeep][kSumColumns];
  const int blocks = static_cast<int>(gridDim.x);
  const int slices = static_cast<int>((width + kSumColumns - 1) / kSumColumns);
  int finishers = slices < kMostFinishers ? slices : kMostFinishers;
  finishers = finishers < blocks ? finishers : blocks;
  const int number = join_last_blocks(tickets, blocks, finishers);
  if (number < 0) return;
  const int across = static_cast<int>(threadIdx.x) % kSumColumns,
            deep = static_cast<int>(threadIdx.x) / kSumColumns;
  for (int slice = number; slice < slices; slice += finishers) {
    const int64_t column = static_cast<int64_t>(slice) * kSumColumns + across;
    // Written by other blocks, so bypass this block's cache.
    const volatile float* partial = workspace + column;
    float total = 0.0f;
    for (int first = deep; column < width && first < blocks; first += kRound * kDeep) {
      float x[kRound];
#pragma unroll
      for (int k = 0; k < kRound; ++k)
        x[k] = first + k * kDeep < blocks ? partial[(first + k * kDeep) * width] : 0.0f;
#pragma unroll
      for (int k = 0; k < kRound; ++k) total += x[k];
    }
    __syncthreads();
    sums[deep][across] = total;
    __syncthreads();
    if (deep == 0 && column < width) {
      for (int d = 1; d < kDeep; ++d) total += sums[d][across];
      d_weight[column] = total;
    }
  }
}

// With g = dy (offset + weight) and xhat = x rstd: dx = rstd (g - xhat mean(g xhat)), d_weight =
// sum dy xhat. Mapping: groups iterate over rows gridDim apart and prefetch the next row; each
// thread keeps the sums of d_weight for its columns. Bound: memory, (2 or 3 reads + 1 write) N D
// sizeof(T); the partial sums are at most 132 rows, in L2.
template <typename T, typename Group, int kCount, bool kResidual>
__global__ void __launch_bounds__(Group::kThreads)
    rms_norm_backward_kernel(const __grid_constant__ Ticketed<RmsNormBackward<T>> p) {
  constexpr int kGroup = Group::kThreads / Group::kRows;
  constexpr int kVector = kVectorOf<T>;
  __shared__ typename Group::Scratch scratch;
  const int lane = Group::lane();
  const int vectors = static_cast<int>(p.width / kVector);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * Group::kRows;
  int64_t first = static_cast<int64_t>(blockIdx.x) * Group::kRows;  // first of the block's rows

  Packed<T, kVector> dy[kCount], x[kCount], more[kCount], next_dy[kCount], next_x[kCount],
      next_more[kCount];
  float next_rstd = 0.0f;
  auto fetch = [&](int64_t from) {
    if (from >= p.tokens) return;
    next_rstd = p.rstd[from];
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const int vector = lane + k * kGroup;
      if (vector >= vectors) continue;
      next_dy[k] = load_packed<kVector>(p.dy[from] + vector * kVector);
      next_x[k] = load_packed<kVector>(p.x[from] + vector * kVector);
      if constexpr (kResidual)
        next_more[k] = load_packed<kVector>(p.d_residual[from] + vector * kVector);
    }
  };
  wait_for_grids();
  fetch(first + Group::number());
  float weight[kCount][kVector], d_weight[kCount][kVector];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int vector = lane + k * kGroup;
    if (vector < vectors) load_floats(p.weight + vector * kVector, weight[k]);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      weight[k][i] += p.weight_offset;
      d_weight[k][i] = 0.0f;
    }
  }
  for (int round = 0; first < p.tokens; ++round, first += stride) {
    const int64_t row = first + Group::number();
    const bool is_row = row < p.tokens;
    const float rstd = next_rstd;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      dy[k] = next_dy[k];
      x[k] = next_x[k];
      if constexpr (kResidual) more[k] = next_more[k];
    }
    fetch(row + stride);
    float dot = 0.0f;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (!is_row || lane + k * kGroup >= vectors) continue;
      float given[kVector], v[kVector];
      unpack(dy[k], given);
      unpack(x[k], v);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float xhat = v[i] * rstd;
        d_weight[k][i] = fmaf(given[i], xhat, d_weight[k][i]);
        dot = fmaf(given[i] * weight[k][i], xhat, dot);
      }
    }
    dot = Group::reduce(dot, Sum{}, scratch, round);
    const float mean = dot / static_cast<float>(p.width);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const int vector = lane + k * kGroup;
      if (!is_row || vector >= vectors) continue;
      float given[kVector], v[kVector], added[kVector];
      unpack(dy[k], given);
      unpack(x[k], v);
      if constexpr (kResidual) unpack(more[k], added);
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        v[i] = rstd * fmaf(-(v[i] * rstd), mean, given[i] * weight[k][i]);
        if constexpr (kResidual) v[i] += added[i];
      }
      store_floats(p.dx[row] + vector * kVector, v);
    }
  }
  float* partial = p.workspace + static_cast<int64_t>(blockIdx.x) * p.width;
  if constexpr (Group::kWhole) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const int vector = lane + k * kGroup;
      if (vector < vectors) store_floats(partial + vector * kVector, d_weight[k]);
    }
  } else {  // adds the block's rows in order
    __shared__ __align__(16) float sums[Group::kRows][kGroup * kCount * kVector];
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      store_floats(&sums[Group::number()][(lane + k * kGroup) * kVector], d_weight[k]);
    __syncthreads();
    for (int i = threadIdx.x; i < p.width; i += Group::kThreads) {
      float sum = 0.0f;
      for (int g = 0; g < Group::kRows; ++g) sum += sums[g][i];
      partial[i] = sum;
    }
  }
  add_partials<Group::kThreads>(p.workspace, p.d_weight, p.tickets, p.width);
}

// Any width and alignment: a block reads each of its rows twice. Its partial sums are in memory,
// and each element is always updated by the same thread.
template <typename T>
__global__ void __launch_bounds__(256)
    rms_norm_backward_any_kernel(const __grid_constant__ Ticketed<RmsNormBackward<T>> p) {
  using Group = RowGroup<256>;
  __shared__ ReduceScratch scratch;
  float* partial = p.workspace + static_cast<int64_t>(blockIdx.x) * p.width;
  wait_for_grids();
  for (int64_t i = threadIdx.x; i < p.width; i += 256) partial[i] = 0.0f;
  int round = 0;
  for (int64_t row = blockIdx.x; row < p.tokens; row += gridDim.x, ++round) {
    const float rstd = p.rstd[row];
    float dot = 0.0f;
    for (int64_t i = threadIdx.x; i < p.width; i += 256) {
      const float given = to_float(p.dy[row][i]);
      const float xhat = to_float(p.x[row][i]) * rstd;
      partial[i] += given * xhat;
      dot = fmaf(given * (p.weight[i] + p.weight_offset), xhat, dot);
    }
    dot = Group::reduce(dot, Sum{}, scratch, round);
    const float mean = dot / static_cast<float>(p.width);
    for (int64_t i = threadIdx.x; i < p.width; i += 256) {
      const float g = to_float(p.dy[row][i]) * (p.weight[i] + p.weight_offset);
      float v = rstd * fmaf(-(to_float(p.x[row][i]) * rstd), mean, g);
      if (p.d_residual) v += to_float(p.d_residual[row][i]);
      p.dx[row][i] = from_float<T>(v);
    }
  }
  add_partials<256>(p.workspace, p.d_weight, p.tickets, p.width);
}

// Half as many vectors per thread as with_row_shape: this kernel keeps three operands and two sets
// of sums, for which 512 threads with two vectors have enough registers. With one vector, 768
// threads fit, but they move no more at a time and wait for each other more often (2048 bf16
// columns: 95% of a copy's rate instead of 96.5%).
template <typename Launch>
bool with_backward_shape(int64_t vectors, const Launch& launch) {
  if (vectors <= 32)
    launch(PartGroup<32, 768>{}, RowShape<32, 1>{});
  else if (vectors <= 64)
    launch(PartGroup<32, 512>{}, RowShape<32, 2>{});
  else if (vectors <= 128)
    launch(PartGroup<64, 512>{}, RowShape<64, 2>{});
  else if (vectors <= 256)
    launch(PartGroup<128, 512>{}, RowShape<128, 2>{});
  else if (vectors <= 512)
    launch(PartGroup<256, 512>{}, RowShape<256, 2>{});
  else if (vectors <= 1024)
    launch(PartGroup<512, 512>{}, RowShape<512, 2>{});
  else
    return false;
  return true;
}

template <typename T, typename Group, int kCount>
void launch_group(const Ticketed<RmsNormBackward<T>>& p, cudaStream_t stream) {
  const auto grid =
      static_cast<unsigned>(std::min((p.tokens + Group::kRows - 1) / Group::kRows, kMostBlocks));
  if (p.d_residual)
    launch_early(rms_norm_backward_kernel<T, Group, kCount, true>, grid, Group::kThreads, 0, stream,
                 p);
  else
    launch_early(rms_norm_backward_kernel<T, Group, kCount, false>, grid, Group::kThreads, 0,
                 stream, p);
}

template <typename T>
void launch_rows(const Ticketed<RmsNormBackward<T>>& p, cudaStream_t stream) {
  constexpr int kVector = kVectorOf<T>;
  const bool vectors = p.width % kVector == 0 && takes_vectors<kVector>(p.dy) &&
                       takes_vectors<kVector>(p.x) && takes_vectors<kVector>(p.weight) &&
                       takes_vectors<kVector>(p.d_residual) && takes_vectors<kVector>(p.dx);
  const bool held = vectors && with_backward_shape(p.width / kVector, [&](auto group, auto shape) {
                      launch_group<T, decltype(group), decltype(shape)::kVectors>(p, stream);
                    });
  if (held) return;
  const auto grid = static_cast<unsigned>(std::min(p.tokens, kMostPartials));
  launch_early(rms_norm_backward_any_kernel<T>, grid, 256, 0, stream, p);
}

}  // namespace

int64_t rms_norm_backward_workspace_bytes(int64_t tokens, int64_t width) {
  return std::min(tokens, kMostPartials) * width * static_cast<int64_t>(sizeof(float));
}

template <typename T>
cudaError_t launch_rms_norm_backward(const Ticketed<RmsNormBackward<T>>& call,
                                     cudaStream_t stream) {
  if (call.tokens < 0 || call.width < 0 || call.width >= int64_t{1} << 31)
    return cudaErrorInvalidValue;
  if (call.width == 0) return cudaSuccess;
  if (call.tokens == 0)
    return launch_sum_columns(
        SumColumns<float, float>{
            0, call.width, {call.workspace, call.width}, call.d_weight, nullptr},
        stream);
  if (is_short(call))
    launch_rms_norm_backward_short(call, stream);
  else
    launch_rows(call, stream);
  return cudaGetLastError();
}

template cudaError_t launch_rms_norm_backward(const Ticketed<RmsNormBackward<float>>&,
                                              cudaStream_t);
template cudaError_t launch_rms_norm_backward(const Ticketed<RmsNormBackward<uint16_t>>&,
                                              cudaStream_t);

}  // namespace ridge::backends::cuda
