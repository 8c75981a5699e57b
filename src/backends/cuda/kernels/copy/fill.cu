// SPDX-License-Identifier: Apache-2.0
// Writes one value to every element.
#include "backends/cuda/kernels/copy/fill.h"

#include <bit>
#include <type_traits>

#include "backends/cuda/kernels/map_rows.cuh"
#include "base/bf16.h"

namespace ridge::backends::cuda {
namespace {

// Bound: memory, R C sizeof(T) written.
template <typename T, int kCount>
struct FillBody {
  static constexpr int kVector = kCount;
  struct LoadedVectors {};
  StridedRows<T> y;
  Packed<T, kCount> value;

  __device__ __forceinline__ void load(LoadedVectors&, MapPlace) const {}
  __device__ __forceinline__ void finish(const LoadedVectors&, MapPlace at) const {
    store_packed(y[at.row] + at.column, value);
  }
};

template <int kCount, typename T>
cudaError_t launch(const StridedRows<T>& y, MapExtents extents, T value, cudaStream_t stream) {
  FillBody<T, kCount> body{y, {}};
  T* elements = reinterpret_cast<T*>(body.value.words);
  for (int i = 0; i < kCount; ++i) elements[i] = value;
  return launch_map_rows<FillBody<T, kCount>>(body, extents.rows, extents.width, stream);
}

template <typename T>
cudaError_t launch_bits(const StridedRows<T>& y,
                        int64_t rows,
                        int64_t columns,
                        T value,
                        cudaStream_t stream) {
  const MapExtents extents = joined_rows(rows, columns, {y.stride});
  constexpr int kCount = kVectorOf<T>;
  const bool vectors = extents.width % kCount == 0 && takes_vectors<kCount>(y);
  return vectors ? launch<kCount>(y, extents, value, stream) : launch<1>(y, extents, value, stream);
}

}  // namespace

template <typename T>
cudaError_t launch_fill(const Fill<T>& call, cudaStream_t stream) {
  if constexpr (std::is_same_v<T, uint16_t>) {
    return launch_bits(call.y, call.rows, call.columns,
                       float_to_bf16(static_cast<float>(call.value)), stream);
  } else if constexpr (std::is_same_v<T, float>) {
    return launch_bits(call.y, call.rows, call.columns, static_cast<float>(call.value), stream);
  } else {  // an integer is written as the float with the same bits
    const StridedRows<float> y{reinterpret_cast<float*>(call.y.data), call.y.stride};
    const auto value = std::bit_cast<float>(static_cast<int32_t>(call.value));
    return launch_bits(y, call.rows, call.columns, value, stream);
  }
}

template cudaError_t launch_fill(const Fill<float>&, cudaStream_t);
template cudaError_t launch_fill(const Fill<uint16_t>&, cudaStream_t);
template cudaError_t launch_fill(const Fill<int32_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
