// SPDX-License-Identifier: Apache-2.0
// Building blocks of the portable flash attention: tiles in shared memory as fp32, and
// register-blocked products of them, with 256 threads as a 16 x 16 grid. Uses no instruction of a
// particular GPU generation and no tensor cores.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "backends/cuda/kernels/flash_attention/flash_attention.h"
#include "backends/cuda/kernels/flash_attention/schedule.h"

namespace ridge::backends::cuda::portable {

constexpr int kSide = 16;  // threads along each side of a product's grid
constexpr int kThreads = kSide * kSide;
// In floats. Puts 16-byte reads of eight neighbouring rows on different banks.
constexpr int kRowPad = 4;

// One head's rows of an operand: row t at data + t stride.
template <typename T>
struct HeadRows {
  T* data;
  int64_t stride;
};

template <typename T>
__device__ __forceinline__ HeadRows<const T> head_rows(const AttentionInput& x,
                                                       int64_t first_token,
                                                       int head) {
  return {static_cast<const T*>(x.data) + first_token * x.token_stride + head * x.head_stride,
          x.token_stride};
}
template <typename T>
__device__ __forceinline__ HeadRows<T> head_rows(const AttentionOutput& x,
                                                 int64_t first_token,
                                                 int head) {
  return {static_cast<T*>(x.data) + first_token * x.token_stride + head * x.head_stride,
          x.token_stride};
}

__device__ __forceinline__ float4 load4(const float* p) {
  return *reinterpret_cast<const float4*>(p);
}
__device__ __forceinline__ float4 load4(const __nv_bfloat16* p) {
  const uint2 bits = *reinterpret_cast<const uint2*>(p);
  return make_float4(__uint_as_float(bits.x << 16), __uint_as_float(bits.x & 0xffff0000u),
                     __uint_as_float(bits.y << 16), __uint_as_float(bits.y & 0xffff0000u));
}
__device__ __forceinline__ void store4(float* p, float4 v) { *reinterpret_cast<float4*>(p) = v; }
__device__ __forceinline__ void store4(__nv_bfloat16* p, float4 v) {
  __nv_bfloat162 pair[2] = {__floats2bfloat162_rn(v.x, v.y), __floats2bfloat162_rn(v.z, v.w)};
  *reinterpret_cast<uint2*>(p) = *reinterpret_cast<uint2*>(pair);
}

// A tile of kRows x kE floats in shared memory, rows kStride apart. kE is the head size rounded up;
// the columns past it are zero.
template <int kE>
struct Tile {
  static constexpr int kStride = kE + kRowPad;
  static constexpr int bytes(int rows) { return rows * kStride * 4; }

  template <int kRows, typename T>
  static __device__ __forceinline__ void load(float* tile,
                                              const HeadRows<const T>& rows,
                                              int first,
                                              int sequence,
                                              int head_size) {
    for (int i = threadIdx.x; i < kRows * kE / 4; i += kThreads) {
      const int row = i / (kE / 4);
      const int column = i % (kE / 4) * 4;
      float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (first + row < sequence && column < head_size)
        v = load4(rows.data + (first + row) * rows.stride + column);
      *reinterpret_cast<float4*>(tile + row * kStride + column) = v;
    }
  }

  // The same for the gradient of the output; also computes delta[row], its product with the
  // output's row, whose vectors are in the lanes of one warp.
  template <int kRows, typename T>
  static __device__ __forceinline__ void load_with_delta(float* tile,
                                                         float* delta,
                                                         const HeadRows<const T>& rows,
                                                         const HeadRows<const T>& outputs,
                                                         int first,
                                                         int sequence,
                                                         int head_size) {
    constexpr int kVectors = kE / 4;
    constexpr int kLanes = kVectors < 32 ? kVectors : 32;
    for (int i = threadIdx.x; i < kRows * kLanes; i += kThreads) {
      const int row = i / kLanes;
      float sum = 0.0f;
#pragma unroll
      for (int vector = 0; vector < kVectors / kLanes; ++vector) {
        const int column = 4 * (i % kLanes + vector * kLanes);
        float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (first + row < sequence && column < head_size) {
          v = load4(rows.data + (first + row) * rows.stride + column);
          const float4 o = load4(outputs.data + (first + row) * outputs.stride + column);
          sum += v.x * o.x + v.y * o.y + v.z * o.z + v.w * o.w;
        }
        *reinterpret_cast<float4*>(tile + row * kStride + column) = v;
      }
#pragma unroll
      for (int step = kLanes / 2; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
      if (i % kLanes == 0) delta[row] = sum;
    }
  }
};

// c[i][j] = sum_e a[ty + 16 i][e] b[tx + 16 j][e] over kE columns.
template <int kE, int kI, int kJ>
__device__ __forceinline__ void dot_rows(const float* a, const float* b, float (&c)[kI][kJ]) {
  constexpr int kStride = Tile<kE>::kStride;
  const int tx = threadIdx.x % kSide;
  const int ty = threadIdx.x / kSide;
#pragma unroll
  for (int i = 0; i < kI; ++i) {
#pragma unroll
    for (int j = 0; j < kJ; ++j) c[i][j] = 0.0f;
  }
#pragma unroll 4
  for (int e = 0; e < kE; e += 4) {
    float4 x[kI], y[kJ];
#pragma unroll
    for (int i = 0; i < kI; ++i) x[i] = load4(a + (ty + kSide * i) * kStride + e);
#pragma unroll
    for (int j = 0; j < kJ; ++j) y[j] = load4(b + (tx + kSide * j) * kStride + e);
#pragma unroll
    for (int i = 0; i < kI; ++i) {
#pragma unroll
      for (int j = 0; j < kJ; ++j) {
        c[i][j] = fmaf(x[i].x, y[j].x, c[i][j]);
        c[i][j] = fmaf(x[i].y, y[j].y, c[i][j]);
        c[i][j] = fmaf(x[i].z, y[j].z, c[i][j]);
        c[i][j] = fmaf(x[i].w, y[j].w, c[i][j]);
      }
    }
  }
}

// out[i][4 h + c] += sum_k w[ty + 16 i][k] b[k][64 h + 4 tx + c], k over kDepth rows of b. w's rows
// are kDepth + kRowPad floats apart.
template <int kE, int kI, int kDepth>
__device__ __forceinline__ void accumulate_rows(const float* w,
                                                const float* b,
                                                float (&out)[kI][kE / kSide]) {
  constexpr int kStride = Tile<kE>::kStride;
  constexpr int kWeightStride = kDepth + kRowPad;
  const int tx = threadIdx.x % kSide;
  const int ty = threadIdx.x / kSide;
#pragma unroll 2
  for (int k = 0; k < kDepth; k += 4) {
    float4 x[kI];
#pragma unroll
    for (int i = 0; i < kI; ++i) x[i] = load4(w + (ty + kSide * i) * kWeightStride + k);
#pragma unroll
    for (int h = 0; h < kE / 64; ++h) {
#pragma unroll
      for (int d = 0; d < 4; ++d) {
        const float4 y = load4(b + (k + d) * kStride + 64 * h + 4 * tx);
#pragma unroll
        for (int i = 0; i < kI; ++i) {
          const float weight = d == 0 ? x[i].x : d == 1 ? x[i].y : d == 2 ? x[i].z : x[i].w;
          out[i][4 * h] = fmaf(weight, y.x, out[i][4 * h]);
          out[i][4 * h + 1] = fmaf(weight, y.y, out[i][4 * h + 1]);
          out[i][4 * h + 2] = fmaf(weight, y.z, out[i][4 * h + 2]);
          out[i][4 * h + 3] = fmaf(weight, y.w, out[i][4 * h + 3]);
        }
      }
    }
  }
}

// Stores rows ty + 16 i of an accumulator to tokens first + row, multiplied by factor[i].
template <int kE, int kI, typename T>
__device__ __forceinline__ void store_rows(const HeadRows<T>& rows,
                                           int first,
                                           int sequence,
                                           int head_size,
                                           const float (&out)[kI][kE / kSide],
                                           const float (&factor)[kI]) {
  const int tx = threadIdx.x % kSide;
  const int ty = threadIdx.x / kSide;
#pragma unroll
  for (int i = 0; i < kI; ++i) {
    const int row = first + ty + kSide * i;
#pragma unroll
    for (int h = 0; h < kE / 64; ++h) {
      const int column = 64 * h + 4 * tx;
      if (row < sequence && column < head_size) {
        store4(rows.data + row * rows.stride + column,
               make_float4(out[i][4 * h] * factor[i], out[i][4 * h + 1] * factor[i],
                           out[i][4 * h + 2] * factor[i], out[i][4 * h + 3] * factor[i]));
      }
    }
  }
}

// Without documents: callers compare the key with document_first(query), which they read once for
// several keys.
__device__ __forceinline__ bool sees(const Visibility& v, int query, int key) {
  return key < v.sequence && (!v.causal || key <= query) &&
         (v.window == 0 || key > query - v.window);
}

}  // namespace ridge::backends::cuda::portable
