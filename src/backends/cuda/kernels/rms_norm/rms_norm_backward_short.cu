// SPDX-License-Identifier: Apache-2.0
// Gradient of RMS norm for few rows, which is bound by latency: the weight's gradient does not wait
// for that of the rows. More rows use rms_norm_backward.cu.
//
// With g = dy (offset + weight) and xhat = x rstd: dx = rstd (g - xhat mean(g xhat)) with one warp
// per row, d_weight = sum dy xhat with one block per eight columns, in the same launch. The
// operands, which both read, are in L2. Bound: a launch, a memory round trip and two reductions.
#include "backends/cuda/kernels/rms_norm/rms_norm_backward_short.h"

#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/row_group.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kLanes;
constexpr int kSumColumns = 8;
constexpr int64_t kMostTokens = 2048;
constexpr int64_t kMostVectors = 4 * kLanes;  // vectors of a row

template <typename T, int kCount>
__device__ __forceinline__ void row_gradient(const Ticketed<RmsNormBackward<T>>& p, int64_t row) {
  constexpr int kVector = kVectorOf<T>;
  using Vector = Packed<T, kVector>;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int vectors = static_cast<int>(p.width / kVector);
  if (row >= p.tokens) return;
  const float rstd = p.rstd[row];
  Vector dy[kCount], x[kCount], more[kCount];
  float weight[kCount][kVector];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int vector = lane + k * kLanes;
    if (vector >= vectors) continue;
    dy[k] = load_packed<kVector>(p.dy[row] + vector * kVector);
    x[k] = load_packed<kVector>(p.x[row] + vector * kVector);
    if (p.d_residual) more[k] = load_packed<kVector>(p.d_residual[row] + vector * kVector);
    load_floats(p.weight + vector * kVector, weight[k]);
  }
  float dot = 0.0f;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    if (lane + k * kLanes >= vectors) continue;
    float given[kVector], v[kVector];
    unpack(dy[k], given);
    unpack(x[k], v);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      weight[k][i] += p.weight_offset;
      dot = fmaf(given[i] * weight[k][i], v[i] * rstd, dot);
    }
  }
  const float mean = reduce_lanes(dot, Sum{}) / static_cast<float>(p.width);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int vector = lane + k * kLanes;
    if (vector >= vectors) continue;
    float given[kVector], v[kVector], added[kVector] = {};
    unpack(dy[k], given);
    unpack(x[k], v);
    if (p.d_residual) unpack(more[k], added);
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      v[i] = rstd * fmaf(-(v[i] * rstd), mean, given[i] * weight[k][i]) + added[i];
    store_floats(p.dx[row] + vector * kVector, v);
  }
}

// Sums eight columns. The rows are split among the block's threads in a fixed way; a thread has
// eight rows in flight.
template <typename T>
__device__ __forceinline__ void column_sums(const Ticketed<RmsNormBackward<T>>& p, int block) {
  constexpr int kVector = kVectorOf<T>;
  constexpr int kAcross = kSumColumns / kVector, kDown = kThreads / kAcross, kRound = 8;
  using Vector = Packed<T, kVector>;
  __shared__ float sums[kWarps][kSumColumns];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kLanes;
  const int64_t column = static_cast<int64_t>(block) * kSumColumns + thread % kAcross * kVector;
  float sum[kVector] = {};
  for (int64_t first = thread / kAcross; column < p.width && first < p.tokens;
       first += kRound * kDown) {
    Vector dy[kRound], x[kRound];
    float rstd[kRound];
#pragma unroll
    for (int k = 0; k < kRound; ++k) {
      const int64_t row = first + k * kDown;
      if (row >= p.tokens) continue;
      dy[k] = load_packed<kVector>(p.dy[row] + column);
      x[k] = load_packed<kVector>(p.x[row] + column);
      rstd[k] = p.rstd[row];
    }
#pragma unroll
    for (int k = 0; k < kRound; ++k) {
      if (first + k * kDown >= p.tokens) continue;
      float given[kVector], v[kVector];
      unpack(dy[k], given);
      unpack(x[k], v);
#pragma unroll
      for (int i = 0; i < kVector; ++i) sum[i] = fmaf(given[i], v[i] * rstd[k], sum[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
#pragma unroll
    for (int mask = kLanes / 2; mask >= kAcross; mask /= 2) sum[i] += shuffle_xor(sum[i], mask);
    if (lane < kAcross) sums[thread / kLanes][lane * kVector + i] = sum[i];
  }
  __syncthreads();
  const int64_t own = static_cast<int64_t>(block) * kSumColumns + thread;
  if (thread >= kSumColumns || own >= p.width) return;
  float total = 0.0f;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) total += sums[warp][thread];
  p.d_weight[own] = total;
}

// The blocks for columns come first, because they take longer.
template <typename T, int kCount>
__global__ void __launch_bounds__(kThreads)
    rms_norm_backward_short_kernel(const __grid_constant__ Ticketed<RmsNormBackward<T>> p,
                                   int column_blocks) {
  const int block = static_cast<int>(blockIdx.x);
  wait_for_grids();
  if (block < column_blocks)
    column_sums(p, block);
  else
    row_gradient<T, kCount>(p, static_cast<int64_t>(block - column_blocks) * kWarps +
                                   static_cast<int>(threadIdx.x) / kLanes);
}

template <typename T, int kCount>
void launch_count(const Ticketed<RmsNormBackward<T>>& p, cudaStream_t stream) {
  const int column_blocks = static_cast<int>((p.width + kSumColumns - 1) / kSumColumns);
  const int row_blocks = static_cast<int>((p.tokens + kWarps - 1) / kWarps);
  launch_early(rms_norm_backward_short_kernel<T, kCount>,
               static_cast<unsigned>(column_blocks + row_blocks), kThreads, 0, stream, p,
               column_blocks);
}

}  // namespace

template <typename T>
bool is_short(const Ticketed<RmsNormBackward<T>>& p) {
  constexpr int kVector = kVectorOf<T>;
  return p.tokens <= kMostTokens && p.width % kVector == 0 && p.width / kVector <= kMostVectors &&
         takes_vectors<kVector>(p.dy) && takes_vectors<kVector>(p.x) &&
         takes_vectors<kVector>(p.weight) && takes_vectors<kVector>(p.d_residual) &&
         takes_vectors<kVector>(p.dx);
}

template <typename T>
void launch_rms_norm_backward_short(const Ticketed<RmsNormBackward<T>>& p, cudaStream_t stream) {
  const int64_t vectors = p.width / kVectorOf<T>;
  if (vectors <= kLanes)
    launch_count<T, 1>(p, stream);
  else if (vectors <= 2 * kLanes)
    launch_count<T, 2>(p, stream);
  else
    launch_count<T, 4>(p, stream);
}

template bool is_short(const Ticketed<RmsNormBackward<float>>&);
template bool is_short(const Ticketed<RmsNormBackward<uint16_t>>&);
template void launch_rms_norm_backward_short(const Ticketed<RmsNormBackward<float>>&, cudaStream_t);
template void launch_rms_norm_backward_short(const Ticketed<RmsNormBackward<uint16_t>>&,
                                             cudaStream_t);

}  // namespace ridge::backends::cuda
