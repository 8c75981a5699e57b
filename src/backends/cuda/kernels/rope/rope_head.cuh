// SPDX-License-Identifier: Apache-2.0
// One warp norms and rotates a head of a merged projection, with its pairs in registers. The caller
// decides where the result goes.
#pragma once

#include "backends/cuda/kernels/cache/quantize.cuh"
#include "backends/cuda/kernels/row_group.cuh"

namespace ridge::backends::cuda {

inline constexpr int64_t kRopeHeadMostSize = 256;

// How a lane holds a head: kPairsAtOnce pairs at a time, which are adjacent if pairs are halves. A
// head uses `lanes` lanes of a warp, a power of two.
template <int kPairsAtOnce>
struct HeadShape {
  static constexpr int kMostPairs = static_cast<int>(kRopeHeadMostSize) / 2;
  static constexpr int kSteps =
      kMostPairs > kLanes* kPairsAtOnce ? kMostPairs / kLanes / kPairsAtOnce : 1;
  int pairs;         // E/2
  bool interleaved;  // pairs are neighbours; otherwise halves
  int lanes;

  __device__ __forceinline__ int pair(int step) const {
    return (static_cast<int>(threadIdx.x) % lanes + step * lanes) * kPairsAtOnce;
  }
  __device__ __forceinline__ int low(int pair) const { return interleaved ? 2 * pair : pair; }
  __device__ __forceinline__ int high(int pair) const {
    return low(pair) + (interleaved ? 1 : pairs);
  }
};

// The angles of a token, which all its heads share.
template <int kPairsAtOnce>
struct HeadAngles {
  using Shape = HeadShape<kPairsAtOnce>;
  float cosine[Shape::kSteps][kPairsAtOnce], sine[Shape::kSteps][kPairsAtOnce];

  __device__ __forceinline__ void load(const float* cos, const float* sin, const Shape& shape) {
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i) {
      if (shape.pair(i) >= shape.pairs) continue;
      load_floats<kPairsAtOnce>(cos + shape.pair(i), cosine[i]);
      load_floats<kPairsAtOnce>(sin + shape.pair(i), sine[i]);
    }
  }
};

template <int kPairsAtOnce>
struct HeadPairs {
  using Shape = HeadShape<kPairsAtOnce>;
  float a[Shape::kSteps][kPairsAtOnce], b[Shape::kSteps][kPairsAtOnce];

  template <typename T>
  __device__ __forceinline__ void load(const T* from, const Shape& shape) {
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i) {
      if (shape.pair(i) >= shape.pairs) continue;
      load_floats<kPairsAtOnce>(from + shape.low(shape.pair(i)), a[i]);
      load_floats<kPairsAtOnce>(from + shape.high(shape.pair(i)), b[i]);
    }
  }

  // Called by all lanes of the warp; leaves heads that are not `normed` unchanged. The weights are
  // `offset` plus the stored values.
  __device__ __forceinline__ void norm(const float* weight,
                                       float offset,
                                       float eps,
                                       const Shape& shape,
                                       bool normed = true) {
    float a_weight[Shape::kSteps][kPairsAtOnce], b_weight[Shape::kSteps][kPairsAtOnce],
        squares = 0.0f;
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i)
#pragma unroll
      for (int k = 0; k < kPairsAtOnce; ++k) {
        if (!normed || shape.pair(i) >= shape.pairs) continue;
        a_weight[i][k] = offset + weight[shape.low(shape.pair(i) + k)];
        b_weight[i][k] = offset + weight[shape.high(shape.pair(i) + k)];
      }
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i)
#pragma unroll
      for (int k = 0; k < kPairsAtOnce; ++k)
        if (normed && shape.pair(i) < shape.pairs)
          squares = fmaf(a[i][k], a[i][k], fmaf(b[i][k], b[i][k], squares));
    gather_lanes();
#pragma unroll
    for (int mask = kLanes / 2; mask > 0; mask /= 2)
      if (mask < shape.lanes) squares += shuffle_xor(squares, mask);
    const float mean = squares / static_cast<float>(2 * shape.pairs);
    const float scale = rsqrtf(mean + eps);
    if (!normed) return;
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i)
#pragma unroll
      for (int k = 0; k < kPairsAtOnce; ++k) {
        a[i][k] *= scale * a_weight[i][k];
        b[i][k] *= scale * b_weight[i][k];
      }
  }

  __device__ __forceinline__ void rotate(const HeadAngles<kPairsAtOnce>& angles) {
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i)
#pragma unroll
      for (int k = 0; k < kPairsAtOnce; ++k) {
        const float x = a[i][k], y = b[i][k];
        a[i][k] = x * angles.cosine[i][k] - y * angles.sine[i][k];
        b[i][k] = y * angles.cosine[i][k] + x * angles.sine[i][k];
      }
  }

  template <typename T>
  __device__ __forceinline__ void store(T* to, const Shape& shape) const {
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i) {
      if (shape.pair(i) >= shape.pairs) continue;
      store_floats(to + shape.low(shape.pair(i)), a[i]);
      store_floats(to + shape.high(shape.pair(i)), b[i]);
    }
  }

  // The scale of the head's quants. Called by all lanes of the warp.
  template <typename C>
  __device__ __forceinline__ HeadScale scale_of(C type, const Shape& shape) const {
    float most = 0.0f;
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i)
#pragma unroll
      for (int k = 0; k < kPairsAtOnce; ++k)
        if (shape.pair(i) < shape.pairs)
          most = fmaxf(most, fmaxf(magnitude(a[i][k]), magnitude(b[i][k])));
    gather_lanes();
#pragma unroll
    for (int mask = kLanes / 2; mask > 0; mask /= 2)
      if (mask < shape.lanes) most = fmaxf(most, shuffle_xor(most, mask));
    return HeadScale::of(most, type);
  }

  template <typename C>
  __device__ __forceinline__ void store_as_quants(C* to,
                                                  const HeadScale& scale,
                                                  const Shape& shape) const {
#pragma unroll
    for (int i = 0; i < Shape::kSteps; ++i) {
      if (shape.pair(i) >= shape.pairs) continue;
      store_quants(to + shape.low(shape.pair(i)), a[i], scale);
      store_quants(to + shape.high(shape.pair(i)), b[i], scale);
    }
  }
};

}  // namespace ridge::backends::cuda
