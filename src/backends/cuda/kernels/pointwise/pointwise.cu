// SPDX-License-Identifier: Apache-2.0
// Entry point of the pointwise primitives: checks the call and plans its layout. The kernels are in
// pointwise_launch.cuh.
#include "backends/cuda/kernels/pointwise/pointwise.h"

#include "backends/cuda/kernels/pointwise/pointwise_launch.cuh"

namespace ridge::backends::cuda {

cudaError_t launch_pointwise(const PointwiseCall& call, cudaStream_t stream) {
  static_assert(kPointwiseMaxRank == kPlanMaxRank);
  auto is_float_type = [](DType dtype) { return dtype == DType::kF32 || dtype == DType::kBF16; };
  const bool two = takes_two(call.function);
  const bool typed = is_float_type(call.a.dtype) && is_float_type(call.y.dtype) &&
                     (!two || call.b.dtype == call.a.dtype) &&
                     (call.function == Pointwise::kCast || call.y.dtype == call.a.dtype);
  if (!typed || call.rank < 0 || call.rank > kPlanMaxRank) return cudaErrorInvalidValue;
  LayoutPlan<3> plan;
  plan.rank = call.rank;
  for (int axis = 0; axis < call.rank; ++axis) {
    plan.extents[axis] = call.extents[axis];
    plan.strides[0][axis] = call.y.strides[axis];
    plan.strides[1][axis] = call.a.strides[axis];
    plan.strides[2][axis] = two ? call.b.strides[axis] : call.a.strides[axis];
  }
  if (!plan.is_valid()) return cudaErrorInvalidValue;
  if (plan.elements() == 0) return cudaSuccess;
  plan.simplify();
  if (!fits_walk(plan)) return cudaErrorInvalidValue;
  return call.a.dtype == DType::kF32 ? launch_pointwise_f32(call, plan, stream)
                                     : launch_pointwise_bf16(call, plan, stream);
}

}  // namespace ridge::backends::cuda
