// SPDX-License-Identifier: Apache-2.0
// Sums all rows to one row.
#include <algorithm>

#include "backends/cuda/kernels/gpu_dialect.cuh"
#include "backends/cuda/kernels/reduce/reduce.h"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int64_t kOneLaunchRows = 1024;
constexpr int64_t kChunkRows = 256;  // minimum per partial sum: 32 threads deep, 8 loads each
// Eight for each of 132 multiprocessors; a constant, because it determines the order of summation.
constexpr int64_t kBlocks = 1056;

struct Chunk {
  int64_t rows;      // rows of the block's part
  int tile_columns;  // 1, 2, ... 32
};

int tile_columns(int64_t columns) {
  int width = 1;
  while (width < columns && width < kLanes) width *= 2;
  return width;
}

int64_t partial_sums(int64_t rows, int64_t columns) {
  if (rows <= kOneLaunchRows) return 1;
  const int64_t tiles = (columns + kLanes - 1) / kLanes;
  return std::min((rows + kChunkRows - 1) / kChunkRows,
                  std::max<int64_t>(kBlocks / std::max<int64_t>(tiles, 1), 1));
}

// Mapping: blocks of 32 columns (fewer if the matrix is narrower; then neighbouring threads take
// neighbouring rows) by a chunk of rows. 1024 / 32 threads share a column, and their sums are added
// as a tree. A thread has eight loads in flight. Bound: memory, R C sizeof(In) read.
template <typename In, typename Out>
__global__ void __launch_bounds__(kThreads)
    sum_columns_kernel(const __grid_constant__ SumColumns<In, Out> p, const Chunk chunk) {
  constexpr int kInFlight = 8;
  __shared__ float sums[kThreads];
  const int across = static_cast<int>(threadIdx.x) % chunk.tile_columns;
  const int deep = kThreads / chunk.tile_columns;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * chunk.tile_columns + across;
  const int64_t begin = static_cast<int64_t>(blockIdx.y) * chunk.rows;
  const int64_t end = begin + chunk.rows < p.rows ? begin + chunk.rows : p.rows;
  float total = 0.0f;
  if (column < p.columns) {
    for (int64_t row = begin + static_cast<int>(threadIdx.x) / chunk.tile_columns; row < end;
         row += kInFlight * deep) {
      In x[kInFlight];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k)
        if (row + k * deep < end) x[k] = p.x[row + k * deep][column];
#pragma unroll
      for (int k = 0; k < kInFlight; ++k)
        if (row + k * deep < end) total += to_float(x[k]);
    }
  }
  sums[threadIdx.x] = total;
  for (int half = kThreads / 2; half >= chunk.tile_columns; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x < chunk.tile_columns && column < p.columns)
    p.y[blockIdx.y * p.columns + column] = from_float<Out>(sums[threadIdx.x]);
}

template <typename In, typename Out>
cudaError_t launch(const SumColumns<In, Out>& call, int64_t parts, cudaStream_t stream) {
  const int across = tile_columns(call.columns);
  const Chunk chunk{parts == 0 ? 0 : (call.rows + parts - 1) / parts, across};
  const dim3 grid(static_cast<unsigned>((call.columns + across - 1) / across),
                  static_cast<unsigned>(parts));
  sum_columns_kernel<<<grid, kThreads, 0, stream>>>(call, chunk);
  return cudaGetLastError();
}

}  // namespace

int64_t sum_columns_workspace_bytes(int64_t rows, int64_t columns) {
  const int64_t parts = partial_sums(rows, columns);
  return parts > 1 ? parts * columns * static_cast<int64_t>(sizeof(float)) : 0;
}

int sum_columns_launches(int64_t rows, int64_t columns) {
  return partial_sums(rows, columns) > 1 ? 2 : 1;
}

template <typename In, typename Out>
cudaError_t launch_sum_columns(const SumColumns<In, Out>& call, cudaStream_t stream) {
  if (call.rows < 0 || call.columns < 0 || call.columns >= int64_t{1} << 31)
    return cudaErrorInvalidValue;
  if (call.columns == 0) return cudaSuccess;
  const int64_t parts = partial_sums(call.rows, call.columns);
  if (parts == 1) return launch(call, 1, stream);
  if (call.workspace == nullptr) return cudaErrorInvalidValue;
  const SumColumns<In, float> first{call.rows, call.columns, call.x, call.workspace, nullptr};
  const cudaError_t status = launch(first, parts, stream);
  if (status != cudaSuccess) return status;
  return launch(
      SumColumns<float, Out>{parts, call.columns, {call.workspace, call.columns}, call.y, nullptr},
      1, stream);
}

template cudaError_t launch_sum_columns(const SumColumns<float, float>&, cudaStream_t);
template cudaError_t launch_sum_columns(const SumColumns<float, uint16_t>&, cudaStream_t);
template cudaError_t launch_sum_columns(const SumColumns<uint16_t, float>&, cudaStream_t);
template cudaError_t launch_sum_columns(const SumColumns<uint16_t, uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
