// SPDX-License-Identifier: Apache-2.0
// The last GEMM of the ladder does a warp's multiply-adds in one instruction. CUDA only (mma.sync).
#include "courses/cuda/kernels/ladder.h"
#include "backends/cuda/kernels/gemm/warp_product.cuh"
#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::courses {
namespace {

using backends::cuda::from_float;
using backends::cuda::warp_product;

constexpr int kTile = 128, kDepth = 32, kThreads = 256;
constexpr int kWarpRows = 64, kWarpColumns = 32;  // each of 2 x 4 warps has so many results
// Pairs of elements along k are one word. A row is one word longer, so that the rows of a warp lie
// in different banks.
constexpr int kStride = kDepth + 2;

__device__ __forceinline__ uint32_t pair_at(const uint16_t* p) {
  return *reinterpret_cast<const uint32_t*>(p);
}

// Mapping: a block of 8 warps for 128 x 128 results, 64 x 32 of them each warp's: 4 x 4 products of
// 16 x 8. Bound: loads from memory, which wait for the products before them; a library fetches the
// next tiles meanwhile.
__global__ void __launch_bounds__(kThreads)
    tensor_cores_kernel(const __grid_constant__ LadderGemm<uint16_t> p) {
  __shared__ __align__(16) uint16_t a[kTile * kStride], b[kTile * kStride];  // b transposed
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int64_t i0 = static_cast<int64_t>(blockIdx.y) * kTile,
                j0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int row0 = warp / 4 * kWarpRows, column0 = warp % 4 * kWarpColumns;
  float sum[4][4][4] = {};
  for (int64_t base = 0; base < p.k; base += kDepth) {
    for (int at = thread; at < kTile * kDepth; at += kThreads) {
      const int r = at / kDepth, k = at % kDepth;
      a[r * kStride + k] =
          i0 + r < p.n && base + k < p.k ? p.a[(i0 + r) * p.k + base + k] : uint16_t{0};
    }
    for (int at = thread; at < kTile * kDepth; at += kThreads) {
      const int k = at / kTile, c = at % kTile;
      b[c * kStride + k] =
          base + k < p.k && j0 + c < p.m ? p.b[(base + k) * p.m + j0 + c] : uint16_t{0};
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; k += 16) {
      uint32_t x[4][4], y[4][2];
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const uint16_t* from = a + (row0 + r * 16 + lane / 4) * kStride + k + lane % 4 * 2;
        x[r][0] = pair_at(from);
        x[r][1] = pair_at(from + 8 * kStride);
        x[r][2] = pair_at(from + 8);
        x[r][3] = pair_at(from + 8 * kStride + 8);
      }
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const uint16_t* from = b + (column0 + c * 8 + lane / 4) * kStride + k + lane % 4 * 2;
        y[c][0] = pair_at(from);
        y[c][1] = pair_at(from + 8);
      }
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) warp_product(sum[r][c], x[r], y[c][0], y[c][1]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int64_t i = i0 + row0 + r * 16 + lane / 4 + e / 2 * 8,
                      j = j0 + column0 + c * 8 + lane % 4 * 2 + e % 2;
        if (i < p.n && j < p.m) p.c[i * p.m + j] = from_float<uint16_t>(sum[r][c][e]);
      }
}

}  // namespace

cudaError_t launch_ladder_on_tensor_cores(const LadderGemm<uint16_t>& call, cudaStream_t stream) {
  if (call.n == 0 || call.m == 0) return cudaSuccess;
  const dim3 grid(static_cast<unsigned>((call.m + kTile - 1) / kTile),
                  static_cast<unsigned>((call.n + kTile - 1) / kTile));
  tensor_cores_kernel<<<grid, kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace ridge::courses
