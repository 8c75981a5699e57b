// SPDX-License-Identifier: Apache-2.0
// Parts side by side in one launch.
#include <algorithm>

#include "backends/cuda/kernels/copy/copy.h"
#include "backends/cuda/kernels/map_rows.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 4;  // vectors of a thread

template <typename T>
struct Part {
  const T* x;
  int64_t stride;
  int64_t first;  // column of y
  FastDivide per_row;
  uint32_t vectors;
};

template <typename T>
struct Parts {
  Part<T> parts[kConcatMaxParts];
  StridedRows<T> y;
};

// Mapping: blockIdx.y is a part, blockIdx.x 1024 of its vectors. Bound: memory, each element read
// and written once.
template <typename T, int kCount>
__global__ void __launch_bounds__(kThreads) concat_kernel(const __grid_constant__ Parts<T> p) {
  const Part<T>& part = p.parts[blockIdx.y];
  Packed<T, kCount> v[kEach];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const uint32_t index = (blockIdx.x * kEach + k) * kThreads + threadIdx.x;
    if (index >= part.vectors) continue;
    const uint32_t row = part.per_row.quotient(index);
    v[k] = load_packed<kCount>(part.x + row * part.stride +
                               (index - row * part.per_row.divisor) * kCount);
  }
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    const uint32_t index = (blockIdx.x * kEach + k) * kThreads + threadIdx.x;
    if (index >= part.vectors) continue;
    const uint32_t row = part.per_row.quotient(index);
    store_packed(p.y[row] + part.first + (index - row * part.per_row.divisor) * kCount, v[k]);
  }
}

template <int kCount, typename T>
cudaError_t launch(const Concat<T>& call, cudaStream_t stream) {
  constexpr int64_t kMostVectors = (int64_t{1} << 31) - (1 << 12);
  Parts<T> p{};
  p.y = call.y;
  int count = 0;
  int64_t most = 0;
  for (const ConcatPart<T>& part : call.parts) {
    if (part.columns == 0) continue;
    const int64_t per_row = part.columns / kCount;
    if (per_row >= kMostVectors / call.rows) return cudaErrorInvalidValue;
    p.parts[count++] = {part.x.data, part.x.stride, part.first, FastDivide(per_row),
                        static_cast<uint32_t>(call.rows * per_row)};
    most = std::max(most, call.rows * per_row);
  }
  if (count == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>((most + kEach * kThreads - 1) / (kEach * kThreads)),
                  static_cast<unsigned>(count));
  concat_kernel<T, kCount><<<grid, kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

template <typename T>
cudaError_t launch_concat(const Concat<T>& call, cudaStream_t stream) {
  if (call.parts.size() > kConcatMaxParts || call.rows < 0) return cudaErrorInvalidValue;
  if (call.rows == 0) return cudaSuccess;
  constexpr int kCount = kVectorOf<T>;
  bool vectors = takes_vectors<kCount>(call.y);
  for (const ConcatPart<T>& part : call.parts) {
    if (part.columns < 0 || part.first < 0) return cudaErrorInvalidValue;
    vectors = vectors && takes_vectors<kCount>(part.x) && part.columns % kCount == 0 &&
              part.first % kCount == 0;
  }
  return vectors ? launch<kCount>(call, stream) : launch<1>(call, stream);
}

template cudaError_t launch_concat(const Concat<float>&, cudaStream_t);
template cudaError_t launch_concat(const Concat<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
