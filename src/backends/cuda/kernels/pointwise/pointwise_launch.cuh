// SPDX-License-Identifier: Apache-2.0
// One pointwise function over dense, repeated or strided operands. Instantiated for f32 and bf16 in
// separate files, which compile in parallel.
#pragma once

#include "backends/cuda/kernels/copy/strided_access.cuh"
#include "backends/cuda/kernels/pointwise/pointwise.h"
#include "backends/cuda/kernels/pointwise/pointwise_functions.cuh"

namespace ridge::backends::cuda {

// Dense operands with the function fixed at compile time. Bound: memory, each operand once.
template <typename T, typename Y, int kCount, Pointwise kFunction>
struct DensePointwiseBody {
  static constexpr int kVector = kCount;
  static constexpr bool kTwo = takes_two(kFunction);
  struct LoadedVectors {
    Packed<T, kCount> a;
    Packed<T, kTwo ? kCount : 1> b;
  };
  const T* a;
  const T* b;
  Y* y;
  float parameter;

  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    item.a = load_packed<kCount>(a + at.column);
    if constexpr (kTwo) item.b = load_packed<kCount>(b + at.column);
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace at) const {
    float x[kCount], second[kCount] = {};
    unpack(item.a, x);
    if constexpr (kTwo) unpack(item.b, second);
#pragma unroll
    for (int i = 0; i < kCount; ++i) x[i] = apply<kFunction, Y>(x[i], second[i], parameter);
    store_floats(y + at.column, x);
  }
};

// Any layout, with the function chosen at run time once per vector: one jump, which all threads
// take alike. kCount is 1 for operands that are not vectors along the innermost axis; otherwise
// each operand is contiguous there or repeats one element.
template <typename T, typename Y, int kCount>
struct StridedPointwiseBody {
  static constexpr int kVector = kCount;
  struct LoadedVectors {
    Packed<T, kCount> a, b;
    int64_t y;
  };
  StridedAccess<3> access;
  const T* a;
  const T* b;
  Y* y;
  float parameter;
  Pointwise function;
  bool two, a_repeats, b_repeats;

  static __device__ __forceinline__ Packed<T, kCount> fetch(const T* p, bool repeats) {
    if (kCount == 1 || !repeats) return load_packed<kCount>(p);
    Packed<T, kCount> all;
    const T element = *p;
    auto* elements = reinterpret_cast<T*>(all.words);
#pragma unroll
    for (int i = 0; i < kCount; ++i) elements[i] = element;
    return all;
  }
  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    int64_t offsets[3];
    access.locate(at.column / kCount, offsets);
    item.y = offsets[0];
    item.a = fetch(a + offsets[1], a_repeats);
    if (two) item.b = fetch(b + offsets[2], b_repeats);
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace) const {
    float x[kCount], second[kCount];
    unpack(item.a, x);
    unpack(item.b, second);
    with_pointwise(function, [&](auto chosen) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        x[i] = apply<decltype(chosen)::kValue, Y>(x[i], second[i], parameter);
    });
    store_floats(y + item.y, x);
  }
};

template <int kCount, typename T, typename Y>
cudaError_t launch_strided(const PointwiseCall& call,
                           const LayoutPlan<3>& plan,
                           cudaStream_t stream) {
  const StridedPointwiseBody<T, Y, kCount> body{StridedAccess<3>(plan, kCount),
                                                static_cast<const T*>(call.a.data),
                                                static_cast<const T*>(call.b.data),
                                                static_cast<Y*>(call.y.data),
                                                call.parameter,
                                                call.function,
                                                takes_two(call.function),
                                                plan.inner_stride(1) == 0,
                                                plan.inner_stride(2) == 0};
  return launch_map_rows<StridedPointwiseBody<T, Y, kCount>, 2>(body, 1, plan.elements(), stream);
}

// kCast is the only function whose result has another type; with kCastOnly the other functions are
// not instantiated.
template <typename T, typename Y, bool kCastOnly>
cudaError_t launch_pointwise_plan(const PointwiseCall& call,
                                  const LayoutPlan<3>& plan,
                                  cudaStream_t stream) {
  constexpr int kCount = kVectorOf<Y>;  // adjacent 16-byte stores
  const bool vectors =
      plan.inner_stride(0) == 1 && access_takes_vectors<kCount>(plan, 0, sizeof(Y), call.y.data) &&
      access_takes_vectors<kCount>(plan, 1, sizeof(T), call.a.data) &&
      (!takes_two(call.function) || access_takes_vectors<kCount>(plan, 2, sizeof(T), call.b.data));
  if (!vectors) return launch_strided<1, T, Y>(call, plan, stream);
  if (plan.rank > 1 || plan.inner_stride(1) == 0 || plan.inner_stride(2) == 0)
    return launch_strided<kCount, T, Y>(call, plan, stream);
  cudaError_t status = cudaErrorInvalidValue;
  auto launch = [&](auto chosen) {
    constexpr Pointwise kFunction = decltype(chosen)::kValue;
    const DensePointwiseBody<T, Y, kCount, kFunction> body{
        static_cast<const T*>(call.a.data), static_cast<const T*>(call.b.data),
        static_cast<Y*>(call.y.data), call.parameter};
    status = launch_map_rows<DensePointwiseBody<T, Y, kCount, kFunction>>(body, 1, plan.elements(),
                                                                          stream);
  };
  if constexpr (kCastOnly) {
    launch(PointwiseConstant<Pointwise::kCast>{});
  } else {
    choose_pointwise(call.function, launch);
  }
  return status;
}

cudaError_t launch_pointwise_f32(const PointwiseCall& call,
                                 const LayoutPlan<3>& plan,
                                 cudaStream_t stream);
cudaError_t launch_pointwise_bf16(const PointwiseCall& call,
                                  const LayoutPlan<3>& plan,
                                  cudaStream_t stream);

}  // namespace ridge::backends::cuda
