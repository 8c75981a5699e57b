// SPDX-License-Identifier: Apache-2.0
// Reductions of rows: a group of threads holds a row in registers or iterates over it, and reduces
// in a fixed order. A group is 32 lanes (one row per warp, no barrier) or the whole block.
#pragma once

#include "backends/cuda/kernels/thread_groups.cuh"
#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {

struct Sum {
  static constexpr float kNothing = 0.0f;
  __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};
struct Max {  // fmaxf ignores NaN
  static constexpr float kNothing = -__builtin_huge_valf();
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// A butterfly reduction: every lane ends with the same bits.
template <typename Combine>
__device__ __forceinline__ float reduce_lanes(float value, Combine combine) {
#pragma unroll
  for (int mask = kLanes / 2; mask > 0; mask /= 2) value = combine(value, shuffle_xor(value, mask));
  return value;
}

// Like reduce_lanes(x, Max{}) for values that are not NaN, with fewer instructions. Non-negative
// floats have the order of their bits as integers, negative ones the reverse order.
__device__ __forceinline__ float max_of_lanes(float x) {
  auto ordered = [](int bits) { return bits ^ ((bits >> 31) & 0x7fffffff); };
  return __int_as_float(ordered(max_of_lanes(ordered(__float_as_int(x)))));
}

// Scratch for a block's reductions. They alternate between two halves, so that one barrier each is
// enough.
struct ReduceScratch {
  float values[2][kLanes];
};

// kBlock: threads per block if groups are 32 lanes.
template <int kGroup, int kBlock = 128>
struct RowGroup {
  static_assert(kGroup % kLanes == 0 && kGroup <= 1024);
  static constexpr bool kWhole = kGroup > kLanes;  // the group is the block
  static constexpr int kThreads = kWhole ? kGroup : kBlock;
  static constexpr int kRows = kThreads / kGroup;  // rows per block

  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kGroup; }
  static __device__ __forceinline__ int64_t first_row() {
    return static_cast<int64_t>(blockIdx.x) * kRows + static_cast<int>(threadIdx.x) / kGroup;
  }

  // Every thread of the group gets the result. `round` counts the block's reductions from 0. If the
  // group is the block, all its threads must call this.
  template <typename Combine>
  static __device__ __forceinline__ float reduce(float value,
                                                 Combine combine,
                                                 ReduceScratch& scratch,
                                                 int round) {
    value = reduce_lanes(value, combine);
    if constexpr (kWhole) {
      float* values = scratch.values[round & 1];
      const int lane = static_cast<int>(threadIdx.x) % kLanes;
      if (lane == 0) values[threadIdx.x / kLanes] = value;
      __syncthreads();
      value = reduce_lanes(lane < kGroup / kLanes ? values[lane] : Combine::kNothing, combine);
    }
    return value;
  }
};

// Groups of more than 32 lanes, several per block of kBlock threads, each with its own barrier:
// then a block adds up the results of many rows at its end, and there are few blocks. All groups of
// a block must reduce equally often.
template <int kGroup, int kBlock>
struct PartGroup {
  static_assert(kGroup % kLanes == 0 && kBlock % kGroup == 0 && kBlock <= 1024);
  static constexpr bool kWhole = kGroup == kBlock;
  static constexpr int kThreads = kBlock;
  static constexpr int kRows = kThreads / kGroup;
  static_assert(kGroup == kLanes || kRows < 16, "barriers of a block");
  struct Scratch {
    float values[2][kBlock / kLanes];
  };

  static __device__ __forceinline__ int number() { return static_cast<int>(threadIdx.x) / kGroup; }
  static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kGroup; }

  // Like RowGroup::reduce.
  template <typename Combine>
  static __device__ __forceinline__ float reduce(float value,
                                                 Combine combine,
                                                 Scratch& scratch,
                                                 int round) {
    value = reduce_lanes(value, combine);
    if constexpr (kGroup > kLanes) {
      constexpr int kWarps = kGroup / kLanes;
      float* values = scratch.values[round & 1] + number() * kWarps;
      const int lane_of_warp = static_cast<int>(threadIdx.x) % kLanes;
      if (lane_of_warp == 0) values[lane() / kLanes] = value;
      sync_threads_of(number(), kGroup);
      value =
          reduce_lanes(lane_of_warp < kWarps ? values[lane_of_warp] : Combine::kNothing, combine);
    }
    return value;
  }
};

// A group size and the number of vectors per thread.
template <int kGroup, int kCount>
struct RowShape {
  static constexpr int kGroupThreads = kGroup;
  static constexpr int kVectors = kCount;
};

// Calls launch(RowShape) with the smallest shape that holds a row of `vectors`; returns false if
// none does. kWidest is the largest group for which the kernel has registers.
template <int kWidest, typename Launch>
bool with_row_shape(int64_t vectors, const Launch& launch) {
  if (vectors <= 32)
    launch(RowShape<32, 1>{});
  else if (vectors <= 128)
    launch(RowShape<32, 4>{});
  else if (vectors <= 256)
    launch(RowShape<128, 2>{});
  else if (vectors <= 512)
    launch(RowShape<128, 4>{});
  else if (vectors <= 1024)
    launch(RowShape<256, 4>{});
  else if (vectors <= 2048)
    launch(RowShape<512, 4>{});
  else if (kWidest == 1024 && vectors <= 4096)
    launch(RowShape<kWidest, 4>{});
  else
    return false;
  return true;
}

}  // namespace ridge::backends::cuda
