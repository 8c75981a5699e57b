// SPDX-License-Identifier: Apache-2.0
// Softmax and log_softmax of rows, forward and backward: rows that fit in registers are read once,
// wider ones twice. The interfaces are softmax.h and log_softmax.h.
#pragma once

#include "backends/cuda/kernels/softmax/softmax.h"
#include "backends/cuda/kernels/softmax/softmax_online.cuh"

namespace ridge::backends::cuda {

enum class SoftmaxForm { kPlain, kLog };

template <SoftmaxForm kForm, typename T>
__device__ __forceinline__ float softmax_of(float x, const OnlineSum& row, float factor) {
  if constexpr (kForm == SoftmaxForm::kLog) return (x - row.top) - factor;
  return exp_difference<T>(x, exponent_base(row.top), kLog2OfE) * factor;
}

// The factor that softmax_of needs, computed from the row's sum once per row.
template <SoftmaxForm kForm>
__device__ __forceinline__ float softmax_factor(float sum) {
  if constexpr (kForm == SoftmaxForm::kLog) return logf(sum);
  return sum > 0.0f ? 1.0f / sum : 0.0f;
}

// Mapping: one group per row, with the row in registers. Bound: memory, 2 R C sizeof(T).
template <typename T, int kGroup, int kCount, SoftmaxForm kForm>
__global__ void __launch_bounds__(RowGroup<kGroup>::kThreads)
    softmax_kernel(const __grid_constant__ Softmax<T> p) {
  using Group = RowGroup<kGroup>;
  constexpr int kVector = kVectorOf<T>;
  __shared__ ReduceScratch scratch;
  const int64_t row = Group::first_row();
  if (row >= p.rows) return;
  Packed<T, kVector> raw[kCount];
  float v[kCount * kVector];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int64_t column = (Group::lane() + k * kGroup) * kVector;
    if (column < p.columns) raw[k] = load_packed<kVector>(p.x[row] + column);
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int64_t column = (Group::lane() + k * kGroup) * kVector;
    float one[kVector];
    unpack(raw[k], one);
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      v[k * kVector + i] = column < p.columns ? one[i] : kMinusInfinity;
  }
  OnlineSum part;
  float top = kMinusInfinity;
#pragma unroll
  for (int i = 0; i < kCount * kVector; ++i) top = fmaxf(top, v[i]);
  part.top = Group::reduce(top, Max{}, scratch, 0);
  const float base = exponent_base(part.top);
  float sum = 0.0f;
  if constexpr (kForm == SoftmaxForm::kLog) {
#pragma unroll
    for (int i = 0; i < kCount * kVector; ++i) sum += exp_difference<T>(v[i], base, kLog2OfE);
  } else {
#pragma unroll
    for (int i = 0; i < kCount * kVector; ++i) {
      v[i] = exp_difference<T>(v[i], base, kLog2OfE);
      sum += v[i];
    }
  }
  sum = Group::reduce(sum, Sum{}, scratch, 1);
  const float factor = softmax_factor<kForm>(sum);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int64_t column = (Group::lane() + k * kGroup) * kVector;
    if (column >= p.columns) continue;
    float one[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const float x = v[k * kVector + i];
      one[i] = kForm == SoftmaxForm::kLog ? (x - part.top) - factor : x * factor;
    }
    store_floats(p.y[row] + column, one);
  }
}

// Any width; kVector is 1 for any alignment. Mapping: one block per row, which it reads twice.
// Bound: memory, 3 R C sizeof(T), or 2 if the row stays in L2.
template <typename T, int kVector, SoftmaxForm kForm>
__global__ void __launch_bounds__(256) softmax_any_kernel(const __grid_constant__ Softmax<T> p) {
  using Group = RowGroup<256>;
  __shared__ ReduceScratch scratch;
  const int64_t row = blockIdx.x;
  const T* x = p.x[row];
  const OnlineSum all = online_sum<Group, 256, kVector>(x, p.columns, kLog2OfE)
                            .template reduce<Group>(kLog2OfE, scratch);
  const float factor = softmax_factor<kForm>(all.sum);
  for (int64_t column = Group::lane() * kVector; column < p.columns; column += 256 * kVector) {
    float v[kVector];
    load_floats(x + column, v);
#pragma unroll
    for (int i = 0; i < kVector; ++i) v[i] = softmax_of<kForm, T>(v[i], all, factor);
    store_floats(p.y[row] + column, v);
  }
}

// An element's term of the row's sum, and an element's gradient.
template <SoftmaxForm kForm>
__device__ __forceinline__ float softmax_backward_term(float y, float dy) {
  return kForm == SoftmaxForm::kLog ? dy : y * dy;
}
template <SoftmaxForm kForm, typename T>
__device__ __forceinline__ float softmax_backward_of(float y, float dy, float sum) {
  if constexpr (kForm == SoftmaxForm::kLog) return dy - exp_for<T>(y) * sum;
  return y * (dy - sum);
}

// Mapping: one group per row, with y and dy in registers. Bound: memory, 3 R C sizeof(T).
template <typename T, int kGroup, int kCount, SoftmaxForm kForm>
__global__ void __launch_bounds__(RowGroup<kGroup>::kThreads)
    softmax_backward_kernel(const __grid_constant__ SoftmaxBackward<T> p) {
  using Group = RowGroup<kGroup>;
  constexpr int kVector = kVectorOf<T>;
  __shared__ ReduceScratch scratch;
  const int64_t row = Group::first_row();
  if (row >= p.rows) return;
  Packed<T, kVector> y[kCount], dy[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int64_t column = (Group::lane() + k * kGroup) * kVector;
    if (column >= p.columns) continue;
    y[k] = load_packed<kVector>(p.y[row] + column);
    dy[k] = load_packed<kVector>(p.dy[row] + column);
  }
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int64_t column = (Group::lane() + k * kGroup) * kVector;
    float result[kVector], given[kVector];
    unpack(y[k], result);
    unpack(dy[k], given);
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      sum += column < p.columns ? softmax_backward_term<kForm>(result[i], given[i]) : 0.0f;
  }
  sum = Group::reduce(sum, Sum{}, scratch, 0);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int64_t column = (Group::lane() + k * kGroup) * kVector;
    if (column >= p.columns) continue;
    float result[kVector], given[kVector];
    unpack(y[k], result);
    unpack(dy[k], given);
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      result[i] = softmax_backward_of<kForm, T>(result[i], given[i], sum);
    store_floats(p.dx[row] + column, result);
  }
}

// Any width, like softmax_any_kernel.
template <typename T, int kVector, SoftmaxForm kForm>
__global__ void __launch_bounds__(256)
    softmax_backward_any_kernel(const __grid_constant__ SoftmaxBackward<T> p) {
  using Group = RowGroup<256>;
  __shared__ ReduceScratch scratch;
  const int64_t row = blockIdx.x;
  float sum = 0.0f;
#pragma unroll 4
  for (int64_t column = Group::lane() * kVector; column < p.columns; column += 256 * kVector) {
    float result[kVector], given[kVector];
    load_floats(p.y[row] + column, result);
    load_floats(p.dy[row] + column, given);
#pragma unroll
    for (int i = 0; i < kVector; ++i) sum += softmax_backward_term<kForm>(result[i], given[i]);
  }
  sum = Group::reduce(sum, Sum{}, scratch, 0);
  for (int64_t column = Group::lane() * kVector; column < p.columns; column += 256 * kVector) {
    float result[kVector], given[kVector];
    load_floats(p.y[row] + column, result);
    load_floats(p.dy[row] + column, given);
#pragma unroll
    for (int i = 0; i < kVector; ++i)
      result[i] = softmax_backward_of<kForm, T>(result[i], given[i], sum);
    store_floats(p.dx[row] + column, result);
  }
}

inline bool rows_fit_grid(int64_t rows, int64_t columns) {
  return rows >= 0 && columns >= 0 && rows < int64_t{1} << 31;
}

template <SoftmaxForm kForm, typename T>
cudaError_t launch_softmax_rows(const Softmax<T>& p, cudaStream_t stream) {
  if (!rows_fit_grid(p.rows, p.columns)) return cudaErrorInvalidValue;
  if (p.rows == 0 || p.columns == 0) return cudaSuccess;
  constexpr int kVector = kVectorOf<T>;
  const auto blocks = static_cast<unsigned>(p.rows);
  const bool vectors =
      p.columns % kVector == 0 && takes_vectors<kVector>(p.x) && takes_vectors<kVector>(p.y);
  const bool held = vectors && with_row_shape<1024>(p.columns / kVector, [&](auto shape) {
                      constexpr int kGroup = decltype(shape)::kGroupThreads;
                      using Group = RowGroup<kGroup>;
                      const auto grid =
                          static_cast<unsigned>((p.rows + Group::kRows - 1) / Group::kRows);
                      softmax_kernel<T, kGroup, decltype(shape)::kVectors, kForm>
                          <<<grid, Group::kThreads, 0, stream>>>(p);
                    });
  if (!held && vectors) softmax_any_kernel<T, kVector, kForm><<<blocks, 256, 0, stream>>>(p);
  if (!vectors) softmax_any_kernel<T, 1, kForm><<<blocks, 256, 0, stream>>>(p);
  return cudaGetLastError();
}

template <SoftmaxForm kForm, typename T>
cudaError_t launch_softmax_backward_rows(const SoftmaxBackward<T>& p, cudaStream_t stream) {
  if (!rows_fit_grid(p.rows, p.columns)) return cudaErrorInvalidValue;
  if (p.rows == 0 || p.columns == 0) return cudaSuccess;
  constexpr int kVector = kVectorOf<T>;
  const auto blocks = static_cast<unsigned>(p.rows);
  const bool vectors = p.columns % kVector == 0 && takes_vectors<kVector>(p.y) &&
                       takes_vectors<kVector>(p.dy) && takes_vectors<kVector>(p.dx);
  const bool held = vectors && with_row_shape<512>(p.columns / kVector, [&](auto shape) {
                      constexpr int kGroup = decltype(shape)::kGroupThreads;
                      using Group = RowGroup<kGroup>;
                      const auto grid =
                          static_cast<unsigned>((p.rows + Group::kRows - 1) / Group::kRows);
                      softmax_backward_kernel<T, kGroup, decltype(shape)::kVectors, kForm>
                          <<<grid, Group::kThreads, 0, stream>>>(p);
                    });
  if (!held && vectors)
    softmax_backward_any_kernel<T, kVector, kForm><<<blocks, 256, 0, stream>>>(p);
  if (!vectors) softmax_backward_any_kernel<T, 1, kForm><<<blocks, 256, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace ridge::backends::cuda
