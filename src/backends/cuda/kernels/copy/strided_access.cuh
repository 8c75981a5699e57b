// SPDX-License-Identifier: Apache-2.0
// Computes the operands' offsets from the index of a vector, for layouts that are not a matrix of
// rows.
#pragma once

#include "backends/cuda/kernels/copy/layout_plan.h"
#include "backends/cuda/kernels/map_rows.cuh"

namespace ridge::backends::cuda {

template <int kOperands>
struct StridedAccess {
  int rank = 0;
  FastDivide extents[kPlanMaxRank];               // innermost first, in vectors
  int64_t strides[kOperands][kPlanMaxRank] = {};  // strides of one vector step

  // `count` must divide the innermost extent.
  StridedAccess(const LayoutPlan<kOperands>& plan, int count) : rank(plan.rank) {
    for (int i = 0; i < rank; ++i) {
      const int axis = rank - 1 - i;
      const int step = i == 0 ? count : 1;
      extents[i] = FastDivide(plan.extents[axis] / step);
      for (int operand = 0; operand < kOperands; ++operand)
        strides[operand][i] = plan.strides[operand][axis] * step;
    }
  }

  __device__ __forceinline__ void locate(uint32_t vector, int64_t (&offsets)[kOperands]) const {
#pragma unroll
    for (int operand = 0; operand < kOperands; ++operand) offsets[operand] = 0;
#pragma unroll
    for (int i = 0; i < kPlanMaxRank; ++i) {
      if (i >= rank) break;
      const uint32_t next = extents[i].quotient(vector);
      const uint32_t index = vector - next * extents[i].divisor;
      vector = next;
#pragma unroll
      for (int operand = 0; operand < kOperands; ++operand)
        offsets[operand] += index * strides[operand][i];
    }
  }
};

// Whether the operand's vectors of kCount elements along the innermost axis are aligned: the axis
// and every other stride must be whole vectors. With a stride of 0 along the innermost axis there
// is no requirement.
template <int kCount, int kOperands>
bool access_takes_vectors(const LayoutPlan<kOperands>& plan,
                          int operand,
                          int element_bytes,
                          const void* data) {
  if (plan.inner_extent() % kCount != 0) return false;
  if (plan.inner_stride(operand) == 0) return true;
  if (plan.inner_stride(operand) != 1) return false;
  const int64_t bytes = kCount * element_bytes < 16 ? kCount * element_bytes : 16;
  bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
  for (int axis = 0; axis + 1 < plan.rank; ++axis)
    aligned = aligned && plan.strides[operand][axis] * element_bytes % bytes == 0;
  return aligned;
}

}  // namespace ridge::backends::cuda
