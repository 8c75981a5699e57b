// SPDX-License-Identifier: Apache-2.0
// Reduces each row to one value.
#include "backends/cuda/kernels/reduce/reduce.h"
#include "backends/cuda/kernels/row_group.cuh"

namespace ridge::backends::cuda {
namespace {

// Mapping: one group per row; a thread has four vectors in flight. Bound: memory, R C sizeof(In)
// read.
template <typename In, typename Out, int kGroup, int kVector, typename Combine>
__global__ void __launch_bounds__(RowGroup<kGroup>::kThreads)
    reduce_rows_kernel(const __grid_constant__ ReduceRows<In, Out> p) {
  using Group = RowGroup<kGroup>;
  constexpr int kInFlight = 4;
  __shared__ ReduceScratch scratch;
  const int64_t row = Group::first_row();
  if (row >= p.rows) return;
  const int64_t vectors = p.columns / kVector;
  float total = Combine::kNothing;
  for (int64_t first = Group::lane(); first < vectors; first += kInFlight * kGroup) {
    Packed<In, kVector> raw[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k)
      if (first + k * kGroup < vectors)
        raw[k] = load_packed<kVector>(p.x[row] + (first + k * kGroup) * kVector);
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      if (first + k * kGroup >= vectors) continue;
      float v[kVector];
      unpack(raw[k], v);
#pragma unroll
      for (int i = 0; i < kVector; ++i) total = Combine{}(total, v[i]);
    }
  }
  total = Group::reduce(total, Combine{}, scratch, 0);
  if (Group::lane() == 0) p.y[row] = from_float<Out>(total);
}

template <int kGroup, int kVector, typename Combine, typename In, typename Out>
void launch_group(const ReduceRows<In, Out>& call, cudaStream_t stream) {
  using Group = RowGroup<kGroup>;
  const auto blocks = static_cast<unsigned>((call.rows + Group::kRows - 1) / Group::kRows);
  reduce_rows_kernel<In, Out, kGroup, kVector, Combine>
      <<<blocks, Group::kThreads, 0, stream>>>(call);
}

template <typename Combine, typename In, typename Out>
void launch(const ReduceRows<In, Out>& call, cudaStream_t stream) {
  constexpr int kVector = kVectorOf<In>;
  constexpr int64_t kLongRow = 2048;  // from here on a block of 256 is worth its barrier
  const bool vectors = call.columns % kVector == 0 && takes_vectors<kVector>(call.x);
  if (call.columns < kLongRow) {
    vectors ? launch_group<32, kVector, Combine>(call, stream)
            : launch_group<32, 1, Combine>(call, stream);
  } else {
    vectors ? launch_group<256, kVector, Combine>(call, stream)
            : launch_group<256, 1, Combine>(call, stream);
  }
}

}  // namespace

template <typename In, typename Out>
cudaError_t launch_reduce_rows(const ReduceRows<In, Out>& call, cudaStream_t stream) {
  if (call.rows < 0 || call.columns < 0 || call.rows >= int64_t{1} << 31)
    return cudaErrorInvalidValue;
  if (call.rows == 0) return cudaSuccess;
  call.reduction == Reduction::kSum ? launch<Sum>(call, stream) : launch<Max>(call, stream);
  return cudaGetLastError();
}

template cudaError_t launch_reduce_rows(const ReduceRows<float, float>&, cudaStream_t);
template cudaError_t launch_reduce_rows(const ReduceRows<float, uint16_t>&, cudaStream_t);
template cudaError_t launch_reduce_rows(const ReduceRows<uint16_t, float>&, cudaStream_t);
template cudaError_t launch_reduce_rows(const ReduceRows<uint16_t, uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
