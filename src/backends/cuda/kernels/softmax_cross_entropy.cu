// SPDX-License-Identifier: Apache-2.0
// Softmax cross-entropy: the forward reads the logits once, the backward reads and writes once.
#include "backends/cuda/kernels/softmax_cross_entropy.h"

#include "backends/cuda/kernels/map_rows.cuh"
#include "backends/cuda/kernels/mean_loss.cuh"
#include "backends/cuda/kernels/softmax_online.cuh"

namespace ridge::backends::cuda {
namespace {

// Mapping: a group a row, walked once with the online softmax. Bound: memory, N V sizeof(T) read,
// once however long a row is; in bf16 the exponentials take about two thirds of that time of the
// special-function units. At least 1024 threads a multiprocessor: while some rows are reduced,
// others must load.
template <typename T, int kGroup, int kVector>
__global__ void __launch_bounds__(RowGroup<kGroup>::kThreads, 1024 / RowGroup<kGroup>::kThreads)
    softmax_cross_entropy_kernel(const __grid_constant__ Watched<SoftmaxCrossEntropy<T>> p) {
  using Group = RowGroup<kGroup>;
  __shared__ ReduceScratch scratch;
  const int64_t row = Group::first_row();
  if (row >= p.tokens) return;
  const T* x = p.logits[row];
  // On its way before the row is.
  const int32_t label = checked_index(p.labels[row], p.vocabulary);
  const float at_label = label < 0 ? 0.0f : to_float(x[label]);
  const OnlineSum all =
      online_sum<Group, kGroup, kVector>(x, p.vocabulary, 0, p.vocabulary, kLog2OfE)
          .template reduce<Group>(kLog2OfE, scratch);
  if (Group::lane() != 0) return;
  const double lse = static_cast<double>(all.top) + static_cast<double>(logf(all.sum));
  p.lse[row] = static_cast<float>(lse);
  p.workspace[row] = label < 0 ? 0.0 : lse - static_cast<double>(at_label);
}

template <typename T>
__global__ void __launch_bounds__(kMeanThreads)
    mean_cross_entropy_kernel(const __grid_constant__ Watched<SoftmaxCrossEntropy<T>> p) {
  write_mean_loss(p.labels, p.tokens, p.vocabulary, p.bad_row, p.loss, p.count,
                  [&](int64_t row, int32_t) { return p.workspace[row]; });
}

// Bound: memory, 2 N V sizeof(T).
template <typename T, int kCount>
struct CrossEntropyBackwardBody {
  static constexpr int kVector = kCount;
  struct Item {
    Packed<T, kCount> x;
    float lse;
    int32_t label;
  };
  Watched<SoftmaxCrossEntropyBackward<T>> p;

  __device__ __forceinline__ void load(Item& item, MapPlace at) const {
    item.x = load_packed<kCount>(p.logits[at.row] + at.column);
    item.lse = p.lse[at.row];
    item.label = checked_index(p.labels[at.row], p.vocabulary);
  }
  __device__ __forceinline__ void finish(const Item& item, MapPlace at) const {
    float v[kCount];
    unpack(item.x, v);
    if (at.column == 0) note_bad_row(p.labels[at.row], p.vocabulary, at.row, p.bad_row);
    const int32_t from_first = item.label - static_cast<int32_t>(at.column);
    const float each = item.label < 0 ? 0.0f : *p.d_loss / static_cast<float>(*p.count);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float probability = exp2_for<T>((v[i] - item.lse) * kLog2OfE);
      v[i] = item.label < 0 ? 0.0f : (probability - (i == from_first ? 1.0f : 0.0f)) * each;
    }
    store_floats(p.d_logits[at.row] + at.column, v);
  }
};

template <typename T, int kGroup, int kVector>
void launch_rows(const Watched<SoftmaxCrossEntropy<T>>& call, cudaStream_t stream) {
  using Group = RowGroup<kGroup>;
  const auto blocks = static_cast<unsigned>((call.tokens + Group::kRows - 1) / Group::kRows);
  softmax_cross_entropy_kernel<T, kGroup, kVector><<<blocks, Group::kThreads, 0, stream>>>(call);
}

// Groups whose threads take up to 32 vectors: rows that are reduced and rows that load must be on a
// multiprocessor together.
template <int kVector, typename T>
void launch_forward(const Watched<SoftmaxCrossEntropy<T>>& call, cudaStream_t stream) {
  const int64_t vectors = call.vocabulary / kVector;
  if (vectors <= 128) {
    launch_rows<T, 32, kVector>(call, stream);
  } else if (vectors <= 4096) {
    launch_rows<T, 128, kVector>(call, stream);
  } else {
    launch_rows<T, 512, kVector>(call, stream);
  }
}

template <int kCount, typename T>
cudaError_t launch_backward(const Watched<SoftmaxCrossEntropyBackward<T>>& call,
                            cudaStream_t stream) {
  return launch_map_rows<CrossEntropyBackwardBody<T, kCount>>(
      CrossEntropyBackwardBody<T, kCount>{call}, call.tokens, call.vocabulary, stream);
}

}  // namespace

int64_t softmax_cross_entropy_workspace_bytes(int64_t tokens) {
  return tokens * static_cast<int64_t>(sizeof(double));
}

template <typename T>
cudaError_t launch_softmax_cross_entropy(const Watched<SoftmaxCrossEntropy<T>>& call,
                                         cudaStream_t stream) {
  if (call.tokens < 0 || call.tokens >= int64_t{1} << 31 || call.vocabulary <= 0)
    return cudaErrorInvalidValue;
  constexpr int kVector = kVectorOf<T>;
  if (call.tokens > 0) {
    const bool vectors = call.vocabulary % kVector == 0 && takes_vectors<kVector>(call.logits);
    if (vectors) {
      launch_forward<kVector>(call, stream);
    } else {
      launch_forward<1>(call, stream);
    }
    const cudaError_t status = cudaGetLastError();
    if (status != cudaSuccess) return status;
  }
  mean_cross_entropy_kernel<T><<<1, kMeanThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_softmax_cross_entropy_backward(
    const Watched<SoftmaxCrossEntropyBackward<T>>& call,
    cudaStream_t stream) {
  constexpr int kCount = kVectorOf<T>;
  const bool vectors = call.vocabulary % kCount == 0 && takes_vectors<kCount>(call.logits) &&
                       takes_vectors<kCount>(call.d_logits);
  return vectors ? launch_backward<kCount>(call, stream) : launch_backward<1>(call, stream);
}

template cudaError_t launch_softmax_cross_entropy(const Watched<SoftmaxCrossEntropy<float>>&,
                                                  cudaStream_t);
template cudaError_t launch_softmax_cross_entropy(const Watched<SoftmaxCrossEntropy<uint16_t>>&,
                                                  cudaStream_t);
template cudaError_t launch_softmax_cross_entropy_backward(
    const Watched<SoftmaxCrossEntropyBackward<float>>&,
    cudaStream_t);
template cudaError_t launch_softmax_cross_entropy_backward(
    const Watched<SoftmaxCrossEntropyBackward<uint16_t>>&,
    cudaStream_t);

}  // namespace ridge::backends::cuda
