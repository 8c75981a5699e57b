// SPDX-License-Identifier: Apache-2.0
// A square tile of a matrix, transposed by a block: what `transpose_multi` and copies across an
// axis are made of.
#pragma once

#include <type_traits>

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {

inline constexpr int kTransposeThreads = 256;
// Tiles of 64 x 64, or of 32 x 32 where those would be too few to fill a GPU twice.
inline constexpr int kLargeTile = 64;
inline constexpr int kSmallTile = 32;
inline constexpr int64_t kFewTiles = 264;

// target [columns, rows] = source [rows, columns] from (row, column) on; `source_step` and
// `target_step` lie between rows of each. Mapping: a warp reads 32 neighbours of the source and
// writes 32 neighbours of the target, 16 (of small tiles 4) loads of a thread wait at a time. By
// every thread of a block of kTransposeThreads, once.
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
  __shared__ From tile[kTile][kTile + 4 / sizeof(From)];  // an odd number of words a row: no two
                                                          // lanes of a column meet
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
