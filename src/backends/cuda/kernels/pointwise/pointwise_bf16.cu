// SPDX-License-Identifier: Apache-2.0
// The pointwise functions on bf16 operands, and the cast to f32.
#include "backends/cuda/kernels/pointwise/pointwise_launch.cuh"

namespace ridge::backends::cuda {

cudaError_t launch_pointwise_bf16(const PointwiseCall& call,
                                  const LayoutPlan<3>& plan,
                                  cudaStream_t stream) {
  if (call.y.dtype == DType::kBF16)
    return launch_pointwise_plan<uint16_t, uint16_t, false>(call, plan, stream);
  return launch_pointwise_plan<uint16_t, float, true>(call, plan, stream);
}

}  // namespace ridge::backends::cuda
