// SPDX-License-Identifier: Apache-2.0
// The causal mask: replaces masked scores and copies the others.
#include "backends/cuda/kernels/softmax/causal_mask.h"

#include "backends/cuda/kernels/map_rows.cuh"
#include "backends/kernels/document_begin.h"

namespace ridge::backends::cuda {
namespace {

// Bound: memory, at most 2 R C sizeof(T): a vector that is completely masked is not read.
template <typename T, int kCount>
struct MaskBody {
  static constexpr int kVector = kCount;
  struct LoadedVectors {
    Packed<T, kCount> x;
    int32_t begin, end;  // visible columns, relative to this vector's first
  };
  StridedRows<const T> x;
  StridedRows<T> y;
  FastDivide per_head;  // by T
  int32_t window;       // 0: none
  float value;
  const int32_t* positions;  // queries have them in their documents; null: one document a row
  FastDivide per_sequence;   // by the rows of a sequence

  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    const auto query = static_cast<int32_t>(at.row - per_head.quotient(at.row) * per_head.divisor);
    const auto first = static_cast<int32_t>(at.column);
    item.begin = window > 0 ? query - window + 1 - first : 0;
    item.end = query + 1 - first;
    if (positions != nullptr) {
      const int64_t sequence = per_sequence.quotient(at.row);
      const auto begin = static_cast<int32_t>(
          document_begin(query, positions[sequence * per_head.divisor + query]));
      item.begin = max(item.begin, begin - first);
    }
    if (item.end > 0 && item.begin < kCount) {
      item.x = load_packed<kCount>(x[at.row] + at.column);
    } else {
      item.x = {};
    }
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace at) const {
    float v[kCount];
    unpack(item.x, v);
#pragma unroll
    for (int i = 0; i < kCount; ++i) v[i] = i >= item.begin && i < item.end ? v[i] : value;
    store_floats(y[at.row] + at.column, v);
  }
};

template <int kCount, typename T>
cudaError_t launch(const CausalMask<T>& call, cudaStream_t stream) {
  const int64_t window = call.window < call.columns ? call.window : 0;  // a wider one masks nothing
  const MaskBody<T, kCount> body{
      call.x,     call.y,         FastDivide(call.columns),          static_cast<int32_t>(window),
      call.value, call.positions, FastDivide(call.rows_per_sequence)};
  return launch_map_rows<MaskBody<T, kCount>>(body, call.rows, call.columns, stream);
}

}  // namespace

template <typename T>
cudaError_t launch_causal_mask(const CausalMask<T>& call, cudaStream_t stream) {
  if (call.window < 0 || call.columns < 0 || call.columns >= int64_t{1} << 31)
    return cudaErrorInvalidValue;
  if (call.rows == 0 || call.columns == 0) return cudaSuccess;
  constexpr int kCount = kVectorOf<T>;
  const bool vectors =
      call.columns % kCount == 0 && takes_vectors<kCount>(call.x) && takes_vectors<kCount>(call.y);
  return vectors ? launch<kCount>(call, stream) : launch<1>(call, stream);
}

template cudaError_t launch_causal_mask(const CausalMask<float>&, cudaStream_t);
template cudaError_t launch_causal_mask(const CausalMask<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
