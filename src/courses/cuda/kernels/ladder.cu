// SPDX-License-Identifier: Apache-2.0
// Four GEMMs without tensor cores.
#include "courses/cuda/kernels/ladder.h"

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::courses {
namespace {

using backends::cuda::from_float;
using backends::cuda::to_float;

unsigned blocks(int64_t extent, int each) {
  return static_cast<unsigned>((extent + each - 1) / each);
}

// A row of a times a column of b.
template <typename T>
__device__ __forceinline__ void compute_result(const LadderGemm<T>& p, int64_t i, int64_t j) {
  if (i >= p.n || j >= p.m) return;
  float sum = 0.0f;
  for (int64_t k = 0; k < p.k; ++k)
    sum = fmaf(to_float(p.a[i * p.k + k]), to_float(p.b[k * p.m + j]), sum);
  p.c[i * p.m + j] = from_float<T>(sum);
}

// Mapping: a thread for each result; neighbouring threads have neighbouring rows. Bound: L1, since
// each load of a warp touches 32 lines of a and 32 of c.
constexpr int kSide = 32;
template <typename T>
__global__ void naive_kernel(const __grid_constant__ LadderGemm<T> p) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kSide + threadIdx.x,
                j = static_cast<int64_t>(blockIdx.y) * kSide + threadIdx.y;
  compute_result(p, i, j);
}

// Mapping: as above, but neighbouring threads have neighbouring columns, so that a warp reads one
// line of b and one element of a. Bound: L1, two loads for a multiply-add.
template <typename T>
__global__ void coalesced_kernel(const __grid_constant__ LadderGemm<T> p) {
  const int64_t i = static_cast<int64_t>(blockIdx.y) * kSide + threadIdx.y,
                j = static_cast<int64_t>(blockIdx.x) * kSide + threadIdx.x;
  compute_result(p, i, j);
}

// Mapping: a block for 32 x 32 results; it reads 32 x 32 tiles of a and b once, from which each
// thread takes a row and a column. Bound: shared memory, two loads for a multiply-add; memory is
// read 32 times less.
template <typename T>
__global__ void __launch_bounds__(kSide* kSide)
    shared_tiles_kernel(const __grid_constant__ LadderGemm<T> p) {
  __shared__ float a[kSide][kSide], b[kSide][kSide];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t i = static_cast<int64_t>(blockIdx.y) * kSide + y,
                j = static_cast<int64_t>(blockIdx.x) * kSide + x;
  float sum = 0.0f;
  for (int64_t base = 0; base < p.k; base += kSide) {
    a[y][x] = i < p.n && base + x < p.k ? to_float(p.a[i * p.k + base + x]) : 0.0f;
    b[y][x] = base + y < p.k && j < p.m ? to_float(p.b[(base + y) * p.m + j]) : 0.0f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kSide; ++k) sum = fmaf(a[y][k], b[k][x], sum);
    __syncthreads();
  }
  if (i < p.n && j < p.m) p.c[i * p.m + j] = from_float<T>(sum);
}

// Mapping: a block of 256 threads for 128 x 128 results, each thread for 8 x 8 in registers: 16
// loads from shared memory feed 64 multiply-adds. Bound: the arithmetic units.
constexpr int kTile = 128, kDepth = 8, kEach = 8, kThreads = 256;
template <typename T>
__global__ void __launch_bounds__(kThreads)
    register_tiles_kernel(const __grid_constant__ LadderGemm<T> p) {
  __shared__ float a[kDepth][kTile], b[kDepth][kTile];  // a transposed
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t i0 = static_cast<int64_t>(blockIdx.y) * kTile,
                j0 = static_cast<int64_t>(blockIdx.x) * kTile;
  constexpr int kAcross = kTile / kEach;  // 16 threads across a tile
  const int row = thread / kAcross, column = thread % kAcross;
  float sum[kEach][kEach] = {};
  for (int64_t base = 0; base < p.k; base += kDepth) {
    for (int at = thread; at < kTile * kDepth; at += kThreads) {
      const int r = at / kDepth, k = at % kDepth;  // neighbours read along k
      a[k][r] = i0 + r < p.n && base + k < p.k ? to_float(p.a[(i0 + r) * p.k + base + k]) : 0.0f;
    }
    for (int at = thread; at < kTile * kDepth; at += kThreads) {
      const int k = at / kTile, c = at % kTile;
      b[k][c] = base + k < p.k && j0 + c < p.m ? to_float(p.b[(base + k) * p.m + j0 + c]) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float x[kEach], y[kEach];
#pragma unroll
      for (int e = 0; e < kEach; ++e) x[e] = a[k][row * kEach + e];
        // Columns 16 apart, so that the threads of a warp read different banks.
#pragma unroll
      for (int e = 0; e < kEach; ++e) y[e] = b[k][column + e * kAcross];
#pragma unroll
      for (int r = 0; r < kEach; ++r)
#pragma unroll
        for (int c = 0; c < kEach; ++c) sum[r][c] = fmaf(x[r], y[c], sum[r][c]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kEach; ++r)
#pragma unroll
    for (int c = 0; c < kEach; ++c) {
      const int64_t i = i0 + row * kEach + r, j = j0 + column + c * kAcross;
      if (i < p.n && j < p.m) p.c[i * p.m + j] = from_float<T>(sum[r][c]);
    }
}

}  // namespace

template <typename T>
cudaError_t launch_ladder(const LadderGemm<T>& call, cudaStream_t stream) {
  if (call.n == 0 || call.m == 0) return cudaSuccess;
  const dim3 threads(kSide, kSide);
  switch (call.kernel) {
    case LadderKernel::kNaive:
      naive_kernel<<<dim3(blocks(call.n, kSide), blocks(call.m, kSide)), threads, 0, stream>>>(
          call);
      break;
    case LadderKernel::kCoalesced:
      coalesced_kernel<<<dim3(blocks(call.m, kSide), blocks(call.n, kSide)), threads, 0, stream>>>(
          call);
      break;
    case LadderKernel::kSharedTiles:
      shared_tiles_kernel<<<dim3(blocks(call.m, kSide), blocks(call.n, kSide)), threads, 0,
                            stream>>>(call);
      break;
    case LadderKernel::kRegisterTiles:
      register_tiles_kernel<<<dim3(blocks(call.m, kTile), blocks(call.n, kTile)), kThreads, 0,
                              stream>>>(call);
      break;
    case LadderKernel::kTensorCores:
      if constexpr (sizeof(T) == 2) return launch_ladder_on_tensor_cores(call, stream);
      return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

template cudaError_t launch_ladder(const LadderGemm<float>&, cudaStream_t);
template cudaError_t launch_ladder(const LadderGemm<uint16_t>&, cudaStream_t);

}  // namespace ridge::courses
