// SPDX-License-Identifier: Apache-2.0
// Transposes one tile per block, one matrix after the other.
#include "backends/cuda/kernels/copy/transpose_multi.h"

#include "backends/cuda/kernels/copy/transposed_tile.cuh"
#include "backends/cuda/kernels/early_start.cuh"

namespace ridge::backends::cuda {
namespace {

template <typename T>
struct TransposeTiles {
  TransposeMulti<T> call;
  uint32_t first[kMostTransposed];    // the block of a matrix's first tile
  uint32_t columns[kMostTransposed];  // tiles across a matrix
};

// Bound: memory, twice the matrices' bytes.
template <int kTile, typename T>
__global__ void __launch_bounds__(kTransposeThreads)
    transpose_multi_kernel(const __grid_constant__ TransposeTiles<T> p) {
  int which = 0;
#pragma unroll
  for (int i = 1; i < kMostTransposed; ++i)
    if (i < p.call.count && blockIdx.x >= p.first[i]) which = i;
  const TransposedMatrix<T>& matrix = p.call.matrices[which];
  const uint32_t tile = blockIdx.x - p.first[which], columns = p.columns[which];
  wait_for_grids();
  transpose_tile<kTile>(matrix.source.data, matrix.source.stride, matrix.target, matrix.rows,
                        matrix.rows, matrix.columns, static_cast<int64_t>(tile / columns) * kTile,
                        static_cast<int64_t>(tile % columns) * kTile, false);
}

template <int kTile, typename T>
cudaError_t launch_tiles(const TransposeMulti<T>& call, cudaStream_t stream) {
  TransposeTiles<T> p{call, {}, {}};
  int64_t blocks = 0;
  for (int i = 0; i < call.count; ++i) {
    const int64_t rows = (call.matrices[i].rows + kTile - 1) / kTile,
                  columns = (call.matrices[i].columns + kTile - 1) / kTile;
    p.first[i] = static_cast<uint32_t>(blocks);
    p.columns[i] = static_cast<uint32_t>(columns);
    if (rows > 0 && columns >= ((int64_t{1} << 31) - blocks) / rows) return cudaErrorInvalidValue;
    blocks += rows * columns;
  }
  if (blocks == 0) return cudaSuccess;
  return launch_early(transpose_multi_kernel<kTile, T>, static_cast<unsigned>(blocks),
                      kTransposeThreads, 0, stream, p);
}

}  // namespace

template <typename T>
cudaError_t launch_transpose_multi(const TransposeMulti<T>& call, cudaStream_t stream) {
  if (call.count < 0 || call.count > kMostTransposed) return cudaErrorInvalidValue;
  int64_t tiles = 0;
  for (int i = 0; i < call.count; ++i)
    tiles += call.matrices[i].rows * call.matrices[i].columns / kLargeTile / kLargeTile;
  return tiles < kFewTiles ? launch_tiles<kSmallTile>(call, stream)
                           : launch_tiles<kLargeTile>(call, stream);
}

template cudaError_t launch_transpose_multi(const TransposeMulti<float>&, cudaStream_t);
template cudaError_t launch_transpose_multi(const TransposeMulti<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
