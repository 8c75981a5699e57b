// SPDX-License-Identifier: Apache-2.0
// A block transposes a square tile of a matrix. Used by `transpose_multi` and by copies across an
// axis.
#pragma once

#include <type_traits>

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {

inline constexpr int kTransposeThreads = 256;
// Tiles of 64 x 64, or of 32 x 32 if the large tiles are too few to fill a GPU twice.
inline constexpr int kLargeTile = 64;
inline constexpr int kSmallTile = 32;
inline constexpr int64_t kFewTiles = 264;

// target [columns, rows] = source [rows, columns]^T from (row, column) on; `source_step` and
// `target_step` are the row strides. Mapping: a warp reads 32 neighbours of the source and writes
// 32 neighbours of the target; a thread has 16 loads in flight (4 for small tiles). Called once by
// every thread of a block of kTransposeThreads.
template <int kTile, typename From, typename To>
__device__ __forceinline__ void transpose_tile(const From* source,
                                               int64_t source_step,
                                               To* target,
                                               int64_t target_step,
                                               int64_t rows,
                                               int64_t columns,
                                               int64_t row,
                                               int64_t column,
                                               bool accumulate) {
  constexpr int kTileRows = kTransposeThreads / kTile;
  // An odd number of words per row: lanes that read a column do not conflict.
  __shared__ From tile[kTile][kTile + 4 / sizeof(From)];
  const int across = static_cast<int>(threadIdx.x) % kTile;
  const int first = static_cast<int>(threadIdx.x) / kTile;
  From v[kTile / kTileRows];
#pragma unroll
  for (int k = 0; k < kTile / kTileRows; ++k) {
    const int64_t from = row + first + k * kTileRows;
    if (from < rows && column + across < columns)
      v[k] = source[from * source_step + column + across];
  }
#pragma unroll
  for (int k = 0; k < kTile / kTileRows; ++k) tile[first + k * kTileRows][across] = v[k];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kTile / kTileRows; ++k) {
    const int64_t from = column + first + k * kTileRows;
    if (from >= columns || row + across >= rows) continue;
    To* to = target + from * target_step + row + across;
    const From x = tile[across][first + k * kTileRows];
    if constexpr (std::is_same_v<From, To>) {
      *to = accumulate ? from_float<To>(to_float(x) + to_float(*to)) : x;
    } else {
      *to = from_float<To>(to_float(x) + (accumulate ? to_float(*to) : 0.0f));
    }
  }
}

}  // namespace ridge::backends::cuda
