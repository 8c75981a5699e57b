// SPDX-License-Identifier: Apache-2.0
// Building blocks of flash attention on the tensor cores of any NVIDIA GPU since compute capability
// 8.0: products of a warp (mma.sync) on tiles in shared memory, bf16 or fp32 as TF32, with sums in
// fp32. Hopper's warpgroup products are elsewhere.
//
// A block is four warps; each owns 16 of its 64 rows. Fragments are laid out as PTX defines them:
// with g = lane / 4 and t = lane % 4, an accumulator of 16 x 8 holds (g, 2t), (g, 2t + 1), (g + 8,
// 2t), (g + 8, 2t + 1). In TF32 the depth of a product of weights is in the order 0 2 4 6 1 3 5 7,
// so that an accumulator is directly the next product's operand.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "backends/cuda/kernels/flash_attention/flash_attention.h"
#include "backends/cuda/kernels/flash_attention/schedule.h"
#include "backends/cuda/kernels/gemm/warp_product.cuh"

namespace ridge::backends::cuda::tensor {

// Loads four matrices of 8 x 8, transposed, each lane with the address of one row.
__device__ __forceinline__ void load_transposed(uint32_t (&r)[4], const __nv_bfloat16* at) {
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(at));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

constexpr int kWarps = 4;
constexpr int kThreads = 32 * kWarps;
constexpr int kRows = 16 * kWarps;  // rows of a block's own tile
constexpr float kLog2E = 1.4426950408889634f;

struct Lane {
  int group = static_cast<int>(threadIdx.x) % 32 / 4;  // g
  int place = static_cast<int>(threadIdx.x) % 4;       // t
  int row = static_cast<int>(threadIdx.x) / 32 * 16;   // the warp's first row
};

__device__ __forceinline__ uint32_t word(const void* shared) {
  return *static_cast<const uint32_t*>(shared);
}

template <typename T>
struct Product;

// fp32 operands: the tensor cores read their upper 19 bits.
template <>
struct Product<float> {
  static constexpr int kDepth = 8;
  // Rows start four banks apart, so fragments of both kinds are read without bank conflicts.
  static constexpr int kPad = 4;

  static __device__ __forceinline__ void run(float (&c)[4],
                                             const uint32_t (&a)[4],
                                             uint32_t b0,
                                             uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  // Loads rows of a tile as the left operand, from column kDepth * step on.
  static __device__ __forceinline__ void left(uint32_t (&a)[4],
                                              const float* rows,
                                              int stride,
                                              int step,
                                              Lane l) {
    const float* at = rows + l.group * stride + kDepth * step + l.place;
    a[0] = word(at);
    a[1] = word(at + 8 * stride);
    a[2] = word(at + 4);
    a[3] = word(at + 8 * stride + 4);
  }
  // Loads eight rows of a tile as the columns of the right operand.
  static __device__ __forceinline__ void right_rows(uint32_t (&b)[2],
                                                    const float* rows,
                                                    int stride,
                                                    int step,
                                                    Lane l) {
    const float* at = rows + l.group * stride + kDepth * step + l.place;
    b[0] = word(at);
    b[1] = word(at + 4);
  }
  // Loads kDepth rows of a tile as the depth of the right operand, for 16 of its columns.
  static __device__ __forceinline__ void right_columns(uint32_t (&b)[4],
                                                       const float* tile,
                                                       int stride,
                                                       int step,
                                                       int column,
                                                       Lane l) {
    const float* at = tile + (kDepth * step + 2 * l.place) * stride + column + l.group;
    b[0] = word(at);
    b[1] = word(at + stride);
    b[2] = word(at + 8);
    b[3] = word(at + stride + 8);
  }
  template <int kTiles>
  static __device__ __forceinline__ void weights(uint32_t (&a)[4],
                                                 const float (&w)[kTiles][4],
                                                 int step) {
    a[0] = __float_as_uint(w[step][0]);
    a[1] = __float_as_uint(w[step][2]);
    a[2] = __float_as_uint(w[step][1]);
    a[3] = __float_as_uint(w[step][3]);
  }
  static __device__ __forceinline__ void store(float* to, float x, float y) {
    *reinterpret_cast<float2*>(to) = make_float2(x, y);
  }
  // The dot product of two vectors of four elements.
  static __device__ __forceinline__ float dot(uint4 x, uint4 y) {
    return __uint_as_float(x.x) * __uint_as_float(y.x) +
           __uint_as_float(x.y) * __uint_as_float(y.y) +
           __uint_as_float(x.z) * __uint_as_float(y.z) +
           __uint_as_float(x.w) * __uint_as_float(y.w);
  }
};

template <>
struct Product<__nv_bfloat16> {
  static constexpr int kDepth = 16;
  static constexpr int kPad = 8;

  static __device__ __forceinline__ void run(float (&c)[4],
                                             const uint32_t (&a)[4],
                                             uint32_t b0,
                                             uint32_t b1) {
    warp_product(c, a, b0, b1);
  }
  static __device__ __forceinline__ void left(uint32_t (&a)[4],
                                              const __nv_bfloat16* rows,
                                              int stride,
                                              int step,
                                              Lane l) {
    const __nv_bfloat16* at = rows + l.group * stride + kDepth * step + 2 * l.place;
    a[0] = word(at);
    a[1] = word(at + 8 * stride);
    a[2] = word(at + 8);
    a[3] = word(at + 8 * stride + 8);
  }
  static __device__ __forceinline__ void right_rows(uint32_t (&b)[2],
                                                    const __nv_bfloat16* rows,
                                                    int stride,
                                                    int step,
                                                    Lane l) {
    const __nv_bfloat16* at = rows + l.group * stride + kDepth * step + 2 * l.place;
    b[0] = word(at);
    b[1] = word(at + 8);
  }
  static __device__ __forceinline__ void right_columns(uint32_t (&b)[4],
                                                       const __nv_bfloat16* tile,
                                                       int stride,
                                                       int step,
                                                       int column,
                                                       Lane) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const __nv_bfloat16* at = tile + (kDepth * step + lane % 16) * stride + column + lane / 16 * 8;
    load_transposed(b, at);
  }
  static __device__ __forceinline__ uint32_t pack(float x, float y) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<const uint32_t*>(&pair);
  }
  template <int kTiles>
  static __device__ __forceinline__ void weights(uint32_t (&a)[4],
                                                 const float (&w)[kTiles][4],
                                                 int step) {
    a[0] = pack(w[2 * step][0], w[2 * step][1]);
    a[1] = pack(w[2 * step][2], w[2 * step][3]);
    a[2] = pack(w[2 * step + 1][0], w[2 * step + 1][1]);
    a[3] = pack(w[2 * step + 1][2], w[2 * step + 1][3]);
  }
  static __device__ __forceinline__ void store(__nv_bfloat16* to, float x, float y) {
    *reinterpret_cast<uint32_t*>(to) = pack(x, y);
  }
  static __device__ __forceinline__ float dot(uint4 x, uint4 y) {
    const uint32_t a[4] = {x.x, x.y, x.z, x.w};
    const uint32_t b[4] = {y.x, y.y, y.z, y.w};
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum = fmaf(__uint_as_float(a[i] << 16), __uint_as_float(b[i] << 16), sum);
      sum = fmaf(__uint_as_float(a[i] & 0xffff0000u), __uint_as_float(b[i] & 0xffff0000u), sum);
    }
    return sum;
  }
};

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

// A tile in shared memory: rows of a head from `first` on, kE elements each, zeros past the
// sequence and the head size.
template <typename T, int kE>
struct Tile {
  static constexpr int kStride = kE + Product<T>::kPad;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  static constexpr int kVectors = kE / kVector;  // per row; divides the warp size
  static constexpr int bytes(int rows) { return rows * kStride * static_cast<int>(sizeof(T)); }

  static __device__ __forceinline__ uint4 vector(const HeadRows<const T>& rows,
                                                 int row,
                                                 int column,
                                                 bool inside) {
    if (!inside) return make_uint4(0, 0, 0, 0);
    return *reinterpret_cast<const uint4*>(rows.data + row * rows.stride + column);
  }

  // Vectors that a thread has in flight at a time.
  static constexpr int kInFlight = 8;

  template <int kCount>
  static __device__ __forceinline__ void load(T* tile,
                                              const HeadRows<const T>& rows,
                                              int first,
                                              int sequence,
                                              int head_size) {
    constexpr int kEach = kCount * kVectors / kThreads;
    constexpr int kHeld = kEach < kInFlight ? kEach : kInFlight;
#pragma unroll
    for (int round = 0; round < kEach; round += kHeld) {
      uint4 v[kHeld];
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const int i = static_cast<int>(threadIdx.x) + (round + k) * kThreads;
        const int row = first + i / kVectors, column = i % kVectors * kVector;
        v[k] = vector(rows, row, column, row < sequence && column < head_size);
      }
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const int i = static_cast<int>(threadIdx.x) + (round + k) * kThreads;
        *reinterpret_cast<uint4*>(tile + i / kVectors * kStride + i % kVectors * kVector) = v[k];
      }
    }
  }

  // The same for the gradient of the output; also computes delta[row], its product with the
  // output's row.
  template <int kCount>
  static __device__ __forceinline__ void load_with_delta(T* tile,
                                                         float* delta,
                                                         const HeadRows<const T>& rows,
                                                         const HeadRows<const T>& outputs,
                                                         int first,
                                                         int sequence,
                                                         int head_size) {
    constexpr int kEach = kCount * kVectors / kThreads;
    constexpr int kHeld = kEach < kInFlight / 2 ? kEach : kInFlight / 2;
#pragma unroll
    for (int round = 0; round < kEach; round += kHeld) {
      uint4 v[kHeld], o[kHeld];
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const int i = static_cast<int>(threadIdx.x) + (round + k) * kThreads;
        const int row = first + i / kVectors, column = i % kVectors * kVector;
        const bool inside = row < sequence && column < head_size;
        v[k] = vector(rows, row, column, inside);
        o[k] = vector(outputs, row, column, inside);
      }
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const int i = static_cast<int>(threadIdx.x) + (round + k) * kThreads;
        *reinterpret_cast<uint4*>(tile + i / kVectors * kStride + i % kVectors * kVector) = v[k];
        float sum = Product<T>::dot(v[k], o[k]);
#pragma unroll
        for (int step = kVectors / 2; step > 0; step /= 2)
          sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (i % kVectors == 0) delta[i / kVectors] = sum;
      }
    }
  }
};

// s[16 rows of the warp, 8 kTiles rows of `streamed`] = their products over kE.
template <typename T, int kE, int kTiles>
__device__ __forceinline__ void row_products(const T* own,
                                             const T* streamed,
                                             float (&s)[kTiles][4],
                                             Lane l) {
  constexpr int kStride = Tile<T, kE>::kStride;
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
#pragma unroll
    for (int c = 0; c < 4; ++c) s[j][c] = 0.0f;
  }
#pragma unroll
  for (int step = 0; step < kE / Product<T>::kDepth; ++step) {
    uint32_t a[4];
    Product<T>::left(a, own + l.row * kStride, kStride, step, l);
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      uint32_t b[2];
      Product<T>::right_rows(b, streamed + 8 * j * kStride, kStride, step, l);
      Product<T>::run(s[j], a, b[0], b[1]);
    }
  }
}

// out[16 rows of the warp, kE] += a[16, kDepth] times the tile's rows from kDepth * step on.
template <typename T, int kE>
__device__ __forceinline__ void add_rows(float (&out)[kE / 8][4],
                                         const uint32_t (&a)[4],
                                         const T* tile,
                                         int stride,
                                         int step,
                                         Lane l) {
#pragma unroll
  for (int n = 0; n < kE / 8; n += 2) {
    uint32_t b[4];
    Product<T>::right_columns(b, tile, stride, step, 8 * n, l);
    Product<T>::run(out[n], a, b[0], b[1]);
    Product<T>::run(out[n + 1], a, b[2], b[3]);
  }
}

// out[16 rows of the warp, kE] += w[16, 8 kTiles] streamed[8 kTiles, kE].
template <typename T, int kE, int kTiles>
__device__ __forceinline__ void add_weighted(const float (&w)[kTiles][4],
                                             const T* streamed,
                                             float (&out)[kE / 8][4],
                                             Lane l) {
#pragma unroll
  for (int step = 0; step < 8 * kTiles / Product<T>::kDepth; ++step) {
    uint32_t a[4];
    Product<T>::weights(a, w, step);
    add_rows<T, kE>(out, a, streamed, Tile<T, kE>::kStride, step, l);
  }
}

// Stores the warp's rows of an accumulator to tokens from `first` on, multiplied by `low` for the
// first eight rows and by `high` for the other eight.
template <typename T, int kE>
__device__ __forceinline__ void store_rows(const HeadRows<T>& rows,
                                           int first,
                                           int sequence,
                                           int head_size,
                                           const float (&out)[kE / 8][4],
                                           float low,
                                           float high,
                                           Lane l) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = first + l.row + l.group + 8 * r;
    if (row >= sequence) continue;
    const float factor = r == 0 ? low : high;
#pragma unroll
    for (int n = 0; n < kE / 8; ++n) {
      const int column = 8 * n + 2 * l.place;
      if (column < head_size)
        Product<T>::store(rows.data + row * rows.stride + column, out[n][2 * r] * factor,
                          out[n][2 * r + 1] * factor);
    }
  }
}

// Without documents: callers compare the key with document_first(query), which they read once for
// several keys.
__device__ __forceinline__ bool sees(const Visibility& v, int query, int key) {
  return query < v.sequence && key < v.sequence && (!v.causal || key <= query) &&
         (v.window == 0 || key > query - v.window);
}

}  // namespace ridge::backends::cuda::tensor
