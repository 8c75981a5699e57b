// SPDX-License-Identifier: Apache-2.0
// The cross-entropy of a vocabulary in parts, from the sums of each.
#include "backends/cuda/kernels/losses/mean_loss.cuh"
#include "backends/cuda/kernels/losses/softmax_cross_entropy.h"

namespace ridge::backends::cuda {
namespace {

// Returns the loss of a row whose label stands in one of the parts.
__device__ __forceinline__ double join_row(const CrossEntropyOfParts& p, int64_t row) {
  const int64_t end = p.parts * p.tokens;
  float top = p.part_lse[row];
  for (int64_t at = row; at < end; at += p.tokens) top = fmaxf(top, p.part_lse[at]);
  float sum = 0.0f, chosen = 0.0f;
  for (int64_t at = row; at < end; at += p.tokens) {
    sum += expf(p.part_lse[at] - top);
    chosen += p.at_label[at];
  }
  const double lse = static_cast<double>(top) + static_cast<double>(logf(sum));
  p.lse[row] = static_cast<float>(lse);
  return lse - static_cast<double>(chosen);
}

// The parts have checked the labels.
constexpr int64_t kAnyLabel = int64_t{1} << 31;

__global__ void __launch_bounds__(kMeanThreads)
    cross_entropy_of_parts_kernel(const __grid_constant__ CrossEntropyOfParts p) {
  write_mean_loss(p.labels, p.tokens, kAnyLabel, nullptr, p.loss, p.count,
                  [&](int64_t row, int32_t label) {
                    const double loss = join_row(p, row);
                    return label < 0 ? 0.0 : loss;
                  });
}

}  // namespace

cudaError_t launch_cross_entropy_of_parts(const CrossEntropyOfParts& call, cudaStream_t stream) {
  if (call.tokens < 0 || call.tokens >= int64_t{1} << 31) return cudaErrorInvalidValue;
  cross_entropy_of_parts_kernel<<<1, kMeanThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace ridge::backends::cuda
