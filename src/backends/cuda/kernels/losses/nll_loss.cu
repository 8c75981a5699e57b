// SPDX-License-Identifier: Apache-2.0
// Negative log-likelihood: the forward pass gathers N elements, the backward pass writes N V
// elements.
#include "backends/cuda/kernels/losses/nll_loss.h"

#include "backends/cuda/kernels/losses/mean_loss.cuh"
#include "backends/cuda/kernels/map_rows.cuh"

namespace ridge::backends::cuda {
namespace {

template <typename T>
__global__ void __launch_bounds__(kMeanThreads)
    nll_loss_kernel(const __grid_constant__ Watched<NllLoss<T>> p) {
  write_mean_loss(p.labels, p.tokens, p.vocabulary, p.bad_row, p.loss, p.count,
                  [&](int64_t row, int32_t label) {
                    return label < 0 ? 0.0 : -static_cast<double>(to_float(p.log_p[row][label]));
                  });
}

// Bound: memory, N V sizeof(T) written.
template <typename T, int kCount>
struct NllBackwardBody {
  static constexpr int kVector = kCount;
  struct LoadedVectors {
    int32_t label;
  };
  const int32_t* labels;
  const float* d_loss;
  const int32_t* count;
  StridedRows<T> d_log_p;
  int64_t vocabulary;
  int32_t* bad_row;

  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    item.label = labels[at.row];
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace at) const {
    if (at.column == 0) note_bad_row(item.label, vocabulary, at.row, bad_row);
    const int32_t from_first = item.label - static_cast<int32_t>(at.column);
    float v[kCount] = {};
    if (from_first >= 0 && from_first < kCount) {
      const float each = -*d_loss / static_cast<float>(*count);  // a label is counted, so count > 0
#pragma unroll
      for (int i = 0; i < kCount; ++i) v[i] = i == from_first ? each : 0.0f;
    }
    store_floats(d_log_p[at.row] + at.column, v);
  }
};

template <int kCount, typename T>
cudaError_t launch_backward(const Watched<NllLossBackward<T>>& call, cudaStream_t stream) {
  const NllBackwardBody<T, kCount> body{call.labels,  call.d_loss,     call.count,
                                        call.d_log_p, call.vocabulary, call.bad_row};
  return launch_map_rows<NllBackwardBody<T, kCount>>(body, call.tokens, call.vocabulary, stream);
}

}  // namespace

template <typename T>
cudaError_t launch_nll_loss(const Watched<NllLoss<T>>& call, cudaStream_t stream) {
  if (call.tokens < 0 || call.tokens >= int64_t{1} << 31) return cudaErrorInvalidValue;
  nll_loss_kernel<T><<<1, kMeanThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_nll_loss_backward(const Watched<NllLossBackward<T>>& call, cudaStream_t stream) {
  constexpr int kCount = kVectorOf<T>;
  const bool vectors = call.vocabulary % kCount == 0 && takes_vectors<kCount>(call.d_log_p);
  return vectors ? launch_backward<kCount>(call, stream) : launch_backward<1>(call, stream);
}

template cudaError_t launch_nll_loss(const Watched<NllLoss<float>>&, cudaStream_t);
template cudaError_t launch_nll_loss(const Watched<NllLoss<uint16_t>>&, cudaStream_t);
template cudaError_t launch_nll_loss_backward(const Watched<NllLossBackward<float>>&, cudaStream_t);
template cudaError_t launch_nll_loss_backward(const Watched<NllLossBackward<uint16_t>>&,
                                              cudaStream_t);

}  // namespace ridge::backends::cuda
