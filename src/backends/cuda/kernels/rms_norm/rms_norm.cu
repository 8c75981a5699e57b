// SPDX-License-Identifier: Apache-2.0
// RMS norm forward: a group of threads holds a row in registers between its reduction and its
// scaling. The gradient is in rms_norm_backward.cu.
#include "backends/cuda/kernels/rms_norm/rms_norm.h"

#include "backends/cuda/kernels/early_start.cuh"
#include "backends/cuda/kernels/rms_norm/norm_vectors.cuh"
#include "backends/cuda/kernels/row_group.cuh"

namespace ridge::backends::cuda {
namespace {

enum class Residual { kNone, kBefore, kAfter };

// Mapping: one group per row with all of its loads in flight at once; while some groups reduce,
// others load. (Groups that iterate over rows and prefetch the next one reach 87 to 95% of a copy's
// rate, these 95 to 99%.) Bound: memory, (reads + writes) N D sizeof(T): 1 + 1; with an addition
// before 2 + 2, with one after 2 + 1.
template <typename T, int kGroup, int kCount, Residual kResidual>
__global__ void __launch_bounds__(RowGroup<kGroup>::kThreads)
    rms_norm_kernel(const __grid_constant__ AddRmsNorm<T> p) {
  using Group = RowGroup<kGroup>;
  constexpr int kVector = kVectorOf<T>;
  __shared__ ReduceScratch scratch;
  const RmsNorm<T>& norm = p.norm;
  const int lane = Group::lane();
  const int vectors = static_cast<int>(norm.width / kVector);
  const int64_t row = Group::first_row();
  let_next_start();
  // Once: those of all rows would go to the same few slices of L2.
  if (blockIdx.x == 0)
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      if (lane + k * kGroup < vectors) prefetch_to_l2(norm.weight + (lane + k * kGroup) * kVector);
  wait_for_grids();
  if (row >= norm.tokens) return;
  Packed<T, kVector> x[kCount], more[kCount];
  float weight[kCount][kVector];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int vector = lane + k * kGroup;
    if (vector >= vectors) continue;
    x[k] = load_packed<kVector>(norm.x[row] + vector * kVector);
    if constexpr (kResidual != Residual::kNone)
      more[k] = load_packed<kVector>(p.residual[row] + vector * kVector);
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int vector = lane + k * kGroup;
    if (vector < vectors) load_floats(norm.weight + vector * kVector, weight[k]);
  }
  float squares = 0.0f;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int vector = lane + k * kGroup;
    if (vector >= vectors) continue;
    float v[kVector];
    unpack(x[k], v);
    if constexpr (kResidual == Residual::kBefore) {
      float added[kVector];
      unpack(more[k], added);
#pragma unroll
      for (int i = 0; i < kVector; ++i) v[i] += added[i];
      x[k] = pack<T>(v);
      store_packed(p.sum[row] + vector * kVector, x[k]);
      unpack(x[k], v);  // the norm uses the sum as stored
    }
#pragma unroll
    for (int i = 0; i < kVector; ++i) squares = fmaf(v[i], v[i], squares);
  }
  squares = Group::reduce(squares, Sum{}, scratch, 0);
  const float rstd = 1.0f / sqrtf(squares / static_cast<float>(norm.width) + norm.eps);
  if (lane == 0 && norm.rstd != nullptr) norm.rstd[row] = rstd;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int vector = lane + k * kGroup;
    if (vector >= vectors) continue;
    float v[kVector], added[kVector];
    unpack(x[k], v);
    if constexpr (kResidual == Residual::kAfter) unpack(more[k], added);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      v[i] = v[i] * rstd * (weight[k][i] + norm.weight_offset);
      if constexpr (kResidual == Residual::kAfter) v[i] += added[i];
    }
    store_floats(norm.y[row] + vector * kVector, v);
  }
}

// Four vectors per thread if the row is long enough: more bytes in flight per waiting thread.
template <typename Launch>
bool with_norm_shape(int64_t vectors, const Launch& launch) {
  if (vectors <= 32)
    launch(RowShape<32, 1>{});
  else if (vectors <= 64)
    launch(RowShape<32, 2>{});
  else if (vectors <= 128)
    launch(RowShape<32, 4>{});
  else if (vectors <= 256)
    launch(RowShape<64, 4>{});
  else if (vectors <= 512)
    launch(RowShape<128, 4>{});
  else if (vectors <= 1024)
    launch(RowShape<256, 4>{});
  else if (vectors <= 2048)
    launch(RowShape<512, 4>{});
  else
    return false;
  return true;
}

// Any width and alignment: a block reads its row twice, element by element.
template <typename T, Residual kResidual>
__global__ void __launch_bounds__(256)
    rms_norm_any_kernel(const __grid_constant__ AddRmsNorm<T> p) {
  using Group = RowGroup<256>;
  __shared__ ReduceScratch scratch;
  wait_for_grids();
  const RmsNorm<T>& norm = p.norm;
  const int64_t row = blockIdx.x;
  const T* x = norm.x[row];
  float squares = 0.0f;
  for (int64_t i = threadIdx.x; i < norm.width; i += 256) {
    float v = to_float(x[i]);
    if constexpr (kResidual == Residual::kBefore) {
      const T sum = from_float<T>(v + to_float(p.residual[row][i]));
      p.sum[row][i] = sum;
      v = to_float(sum);
    }
    squares = fmaf(v, v, squares);
  }
  squares = Group::reduce(squares, Sum{}, scratch, 0);
  const float rstd = 1.0f / sqrtf(squares / static_cast<float>(norm.width) + norm.eps);
  if (threadIdx.x == 0 && norm.rstd != nullptr) norm.rstd[row] = rstd;
  // Each thread reads only its own writes
  const T* from = kResidual == Residual::kBefore ? p.sum[row] : x;
  for (int64_t i = threadIdx.x; i < norm.width; i += 256) {
    float v = to_float(from[i]) * rstd * (norm.weight[i] + norm.weight_offset);
    if constexpr (kResidual == Residual::kAfter) v += to_float(p.residual[row][i]);
    norm.y[row][i] = from_float<T>(v);
  }
}

template <Residual kResidual, typename T>
cudaError_t launch(const AddRmsNorm<T>& p, cudaStream_t stream) {
  constexpr int kVector = kVectorOf<T>;
  const RmsNorm<T>& norm = p.norm;
  if (norm.tokens < 0 || norm.width < 0 || norm.tokens >= int64_t{1} << 31)
    return cudaErrorInvalidValue;
  if (norm.tokens == 0 || norm.width == 0) return cudaSuccess;
  const bool held = takes_vectors(p) && with_norm_shape(norm.width / kVector, [&](auto shape) {
                      constexpr int kGroup = decltype(shape)::kGroupThreads;
                      using Group = RowGroup<kGroup>;
                      const auto blocks =
                          static_cast<unsigned>((norm.tokens + Group::kRows - 1) / Group::kRows);
                      launch_early(rms_norm_kernel<T, kGroup, decltype(shape)::kVectors, kResidual>,
                                   blocks, Group::kThreads, 0, stream, p);
                    });
  if (!held)
    launch_early(rms_norm_any_kernel<T, kResidual>, static_cast<unsigned>(norm.tokens), 256, 0,
                 stream, p);
  return cudaGetLastError();
}

}  // namespace

template <typename T>
cudaError_t launch_rms_norm(const RmsNorm<T>& call, cudaStream_t stream) {
  return launch<Residual::kNone>(AddRmsNorm<T>{call, {}, {}}, stream);
}

template <typename T>
cudaError_t launch_add_rms_norm(const RmsNorm<T>& call,
                                StridedRows<const T> residual,
                                StridedRows<T> sum,
                                cudaStream_t stream) {
  return launch<Residual::kBefore>(AddRmsNorm<T>{call, residual, sum}, stream);
}

template <typename T>
cudaError_t launch_rms_norm_add(const RmsNorm<T>& call,
                                StridedRows<const T> residual,
                                cudaStream_t stream) {
  return launch<Residual::kAfter>(AddRmsNorm<T>{call, residual, {}}, stream);
}

template cudaError_t launch_rms_norm(const RmsNorm<float>&, cudaStream_t);
template cudaError_t launch_rms_norm(const RmsNorm<uint16_t>&, cudaStream_t);
template cudaError_t launch_add_rms_norm(const RmsNorm<float>&,
                                         StridedRows<const float>,
                                         StridedRows<float>,
                                         cudaStream_t);
template cudaError_t launch_add_rms_norm(const RmsNorm<uint16_t>&,
                                         StridedRows<const uint16_t>,
                                         StridedRows<uint16_t>,
                                         cudaStream_t);
template cudaError_t launch_rms_norm_add(const RmsNorm<float>&,
                                         StridedRows<const float>,
                                         cudaStream_t);
template cudaError_t launch_rms_norm_add(const RmsNorm<uint16_t>&,
                                         StridedRows<const uint16_t>,
                                         cudaStream_t);

}  // namespace ridge::backends::cuda
