// SPDX-License-Identifier: Apache-2.0
// Independent work on each vector of a matrix of rows: used for glu, rope, gradients of losses and
// the pointwise primitives. A body defines how a vector is loaded and finished; this file defines
// the mapping.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {

// n / d for n < 2^31 with a multiplication (Granlund and Montgomery 1994); d in [1, 2^31).
struct FastDivide {
  uint32_t divisor = 1;
  uint32_t multiplier = 1;
  uint32_t shift = 0;

  FastDivide() = default;
  explicit FastDivide(int64_t d) : divisor(static_cast<uint32_t>(d)) {
    while ((uint64_t{1} << shift) < divisor) ++shift;
    multiplier = static_cast<uint32_t>(
        (uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor) / divisor + 1);
  }
  __device__ __forceinline__ uint32_t quotient(uint32_t n) const {
    return (__umulhi(n, multiplier) + n) >> shift;
  }
};

inline constexpr int kMapThreads = 256;

// The place of a vector: its row and its first column.
struct MapPlace {
  uint32_t row;
  uint32_t column;
};

// Mapping: vectors in row-major order. A block takes kUnroll x 256 consecutive vectors, a thread
// kUnroll of them 256 apart, which are all loaded before the first is finished, so that their
// latencies overlap. Bound: memory, what the body moves.
//
// Body: `kVector`, `struct LoadedVectors`, `load(LoadedVectors&, MapPlace)`, `finish(const
// LoadedVectors&, MapPlace)`.
template <typename Body, int kUnroll>
__global__ void __launch_bounds__(kMapThreads) map_rows_kernel(const __grid_constant__ Body body,
                                                               const uint32_t vectors,
                                                               const FastDivide per_row) {
  const uint32_t first = blockIdx.x * (kMapThreads * kUnroll) + threadIdx.x;
  typename Body::LoadedVectors items[kUnroll];
  MapPlace places[kUnroll];
  wait_for_grids();
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const uint32_t index = first + u * kMapThreads;
    const uint32_t row = per_row.quotient(index);
    places[u] = {row, (index - row * per_row.divisor) * Body::kVector};
    if (index < vectors) body.load(items[u], places[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kMapThreads < vectors) body.finish(items[u], places[u]);
  }
}

// width must be a multiple of Body::kVector. Returns cudaErrorInvalidValue for 2^31 - 2^12 vectors
// or more.
template <typename Body, int kUnroll = 4>
cudaError_t launch_map_rows(const Body& body, int64_t rows, int64_t width, cudaStream_t stream) {
  // Twice the number that fills 132 multiprocessors with 8 blocks each: with fewer vectors, more
  // and shorter blocks finish sooner.
  constexpr int64_t kFewVectors = 2112 * kMapThreads;
  constexpr int64_t kMostVectors = (int64_t{1} << 31) - (1 << 12);
  if (rows == 0 || width == 0) return cudaSuccess;
  if (rows < 0 || width < 0 || rows >= kMostVectors || width / Body::kVector >= kMostVectors / rows)
    return cudaErrorInvalidValue;
  const int64_t vectors = rows * (width / Body::kVector);
  const FastDivide per_row(width / Body::kVector);
  if (vectors <= kFewVectors) {
    const auto blocks = static_cast<unsigned>((vectors + kMapThreads - 1) / kMapThreads);
    launch_early(map_rows_kernel<Body, 1>, blocks, kMapThreads, 0, stream, body,
                 static_cast<uint32_t>(vectors), per_row);
  } else {
    const auto blocks =
        static_cast<unsigned>((vectors + kUnroll * kMapThreads - 1) / (kUnroll * kMapThreads));
    launch_early(map_rows_kernel<Body, kUnroll>, blocks, kMapThreads, 0, stream, body,
                 static_cast<uint32_t>(vectors), per_row);
  }
  return cudaGetLastError();
}

// One long row if the rows of every operand are contiguous: then no row ends with a partial vector.
struct MapExtents {
  int64_t rows;
  int64_t width;
};
inline MapExtents joined_rows(int64_t rows, int64_t width, std::initializer_list<int64_t> strides) {
  const bool dense =
      std::all_of(strides.begin(), strides.end(), [&](int64_t stride) { return stride == width; });
  return dense ? MapExtents{rows == 0 || width == 0 ? 0 : 1, rows * width}
               : MapExtents{rows, width};
}

}  // namespace ridge::backends::cuda
