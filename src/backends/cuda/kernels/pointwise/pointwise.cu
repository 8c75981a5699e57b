// SPDX-License-Identifier: Apache-2.0
// Entry point of the pointwise primitives: checks the call and plans its layout. The kernels are in
// pointwise_launch.cuh.
#include "backends/cuda/kernels/pointwise/pointwise.h"

#include "backends/cuda/kernels/pointwise/pointwise_launch.cuh"

namespace ridge::backends::cuda {
namespace {

void move(PointwiseOperand& operand, int64_t elements) {
  const int64_t bytes = elements * (operand.dtype == DType::kF32 ? 4 : 2);
  operand.data = static_cast<unsigned char*>(operand.data) + bytes;
}

}  // namespace

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
  return launch_parts(plan, [&](const LayoutPlan<3>& part, const std::array<int64_t, 3>& offsets) {
    PointwiseCall moved = call;
    move(moved.y, offsets[0]);
    move(moved.a, offsets[1]);
    if (two) move(moved.b, offsets[2]);
    return call.a.dtype == DType::kF32 ? launch_pointwise_f32(moved, part, stream)
                                       : launch_pointwise_bf16(moved, part, stream);
  });
}

}  // namespace ridge::backends::cuda
