// SPDX-License-Identifier: Apache-2.0
// The sum of squares over any number of tensors, for the norm of all gradients.
#include <algorithm>

#include "backends/cuda/kernels/reduce/reduce.h"
#include "backends/cuda/kernels/tensor_list.cuh"
#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTotalThreads = 1024;
constexpr int64_t kPiece = 16384;  // elements per block: 64 per thread, in fp32
constexpr int kMaxTensors = 512;   // per launch

struct Piece {
  const void* data;
  int64_t elements;
  bool is_f32;
};
using PieceList = TensorList<Piece, kMaxTensors>;

int64_t blocks_of(const SquaresTensor& tensor) { return (tensor.elements + kPiece - 1) / kPiece; }

template <int kCount, typename T>
__device__ __forceinline__ float squares_of(const T* x, int64_t elements) {
  constexpr int kInFlight = 4;
  float total = 0.0f;
  for (int64_t first = threadIdx.x * kCount; first < elements;
       first += kInFlight * kThreads * kCount) {
    Packed<T, kCount> raw[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t at = first + k * kThreads * kCount;
      if (at < elements) raw[k] = load_packed<kCount>(x + at);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (first + k * kThreads * kCount >= elements) continue;
      float v[kCount];
      unpack(raw[k], v);
#pragma unroll
      for (int i = 0; i < kCount; ++i) total = fmaf(v[i], v[i], total);
    }
  }
  return total;
}

template <typename T>
__device__ __forceinline__ float piece_squares(const T* x, int64_t elements) {
  constexpr int kCount = kVectorOf<T>;
  const bool vectors = elements % kCount == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
  return vectors ? squares_of<kCount>(x, elements) : squares_of<1>(x, elements);
}

// Thread 0 gets the result.
template <int kBlock>
__device__ __forceinline__ double block_sum(double value) {
  __shared__ double sums[kBlock / kLanes];
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  if (lane == 0) sums[threadIdx.x / kLanes] = value;
  __syncthreads();
  value = lane < kBlock / kLanes ? sums[lane] : 0.0;
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}

// Mapping: one block per piece of 16384 elements, 64 per thread in fp32, then double. Bound:
// memory, each element read once.
__global__ void __launch_bounds__(kThreads)
    sum_squares_kernel(const __grid_constant__ PieceList list, double* partial) {
  const int index = list.tensor_of(blockIdx.x);
  const Piece& piece = list.tensors[index];
  const int64_t first = static_cast<int64_t>(blockIdx.x - list.first_block[index]) * kPiece;
  const int64_t elements = piece.elements - first < kPiece ? piece.elements - first : kPiece;
  const float total =
      piece.is_f32 ? piece_squares(static_cast<const float*>(piece.data) + first, elements)
                   : piece_squares(static_cast<const uint16_t*>(piece.data) + first, elements);
  const double sum = block_sum<kThreads>(total);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kTotalThreads)
    total_kernel(const double* partial, int64_t count, float* y) {
  double total = 0.0;
  for (int64_t i = threadIdx.x; i < count; i += kTotalThreads) total += partial[i];
  total = block_sum<kTotalThreads>(total);
  if (threadIdx.x == 0) *y = static_cast<float>(total);
}

}  // namespace

int64_t sum_squares_workspace_bytes(std::span<const SquaresTensor> tensors) {
  int64_t blocks = 0;
  for (const SquaresTensor& tensor : tensors) blocks += blocks_of(tensor);
  return blocks * static_cast<int64_t>(sizeof(double));
}

int sum_squares_launches(std::span<const SquaresTensor> tensors) {
  const auto filled =
      std::count_if(tensors.begin(), tensors.end(), [](const auto& t) { return t.elements > 0; });
  return static_cast<int>((filled + kMaxTensors - 1) / kMaxTensors) + 1;
}

cudaError_t launch_sum_squares(const SumSquares& call, cudaStream_t stream) {
  PieceList list;
  int64_t blocks = 0, done = 0;
  auto flush = [&] {
    if (list.count == 0) return cudaSuccess;
    sum_squares_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        list, call.workspace + done);
    done += blocks;
    blocks = list.count = 0;
    return cudaGetLastError();
  };
  for (const SquaresTensor& tensor : call.tensors) {
    if (tensor.elements < 0 || (tensor.f32 != nullptr) == (tensor.bf16 != nullptr))
      return cudaErrorInvalidValue;
    if (tensor.elements == 0) continue;
    if (list.count == kMaxTensors) {
      const cudaError_t status = flush();
      if (status != cudaSuccess) return status;
    }
    const void* data = tensor.f32 != nullptr ? static_cast<const void*>(tensor.f32) : tensor.bf16;
    list.tensors[list.count] = {data, tensor.elements, tensor.f32 != nullptr};
    list.first_block[list.count++] = static_cast<uint32_t>(blocks);
    blocks += blocks_of(tensor);
    if (blocks >= int64_t{1} << 31) return cudaErrorInvalidValue;
  }
  const cudaError_t status = flush();
  if (status != cudaSuccess) return status;
  total_kernel<<<1, kTotalThreads, 0, stream>>>(call.workspace, done, call.y);
  return cudaGetLastError();
}

}  // namespace ridge::backends::cuda
