// SPDX-License-Identifier: Apache-2.0
// The pointwise functions on f32 operands, and the cast to bf16.
#include "backends/cuda/kernels/pointwise/pointwise_launch.cuh"

namespace ridge::backends::cuda {

cudaError_t launch_pointwise_f32(const PointwiseCall& call,
                                 const LayoutPlan<3>& plan,
                                 cudaStream_t stream) {
  if (call.y.dtype == DType::kF32)
    return launch_pointwise_plan<float, float, false>(call, plan, stream);
  return launch_pointwise_plan<float, uint16_t, true>(call, plan, stream);
}

}  // namespace ridge::backends::cuda
