// SPDX-License-Identifier: Apache-2.0
// Simplifies the layouts of strided operands: drops axes of one element, orders the others by the
// target's strides, and joins axes that are contiguous to each other in all operands. Host
// arithmetic, no kernel.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "backends/cuda/kernels/gpu_runtime.h"

namespace ridge::backends::cuda {

inline constexpr int kPlanMaxRank = 6;

// Operand 0 is the target. Axes are ordered from the outermost to the innermost.
template <int kOperands>
struct LayoutPlan {
  int rank = 0;
  int64_t extents[kPlanMaxRank] = {};
  int64_t strides[kOperands][kPlanMaxRank] = {};

  int64_t elements() const {
    int64_t product = 1;
    for (int axis = 0; axis < rank; ++axis) product *= extents[axis];
    return product;
  }
  int64_t inner_extent() const { return rank == 0 ? 1 : extents[rank - 1]; }
  // A single element counts as contiguous.
  int64_t inner_stride(int operand) const { return rank == 0 ? 1 : strides[operand][rank - 1]; }

  void swap_axes(int a, int b) {
    std::swap(extents[a], extents[b]);
    for (auto& each : strides) std::swap(each[a], each[b]);
  }
  void erase(int axis) {
    for (int i = axis; i + 1 < rank; ++i) swap_axes(i, i + 1);
    --rank;
  }

  // False for a rank out of range or a negative extent or stride.
  bool is_valid() const {
    bool valid = rank >= 0 && rank <= kPlanMaxRank;
    for (int axis = 0; valid && axis < rank; ++axis) {
      valid = extents[axis] >= 0;
      for (const auto& each : strides) valid = valid && each[axis] >= 0;
    }
    return valid;
  }

  void simplify() {
    for (int axis = rank; axis-- > 0;)
      if (extents[axis] == 1) erase(axis);
    for (int i = 1; i < rank; ++i)
      for (int j = i; j > 0 && strides[0][j] > strides[0][j - 1]; --j) swap_axes(j, j - 1);
    for (int axis = rank; axis-- > 1;) {
      bool runs_on = true;
      for (const auto& each : strides)
        runs_on = runs_on && each[axis - 1] == each[axis] * extents[axis];
      if (!runs_on) continue;
      extents[axis] *= extents[axis - 1];
      erase(axis - 1);
    }
  }
};

// Kernels index the elements of a plan with 32 bits, with room to round up to whole blocks.
inline constexpr int64_t kMostPartElements = int64_t{1} << 30;

// Cuts a plan along its outermost axes into parts of at most kMostPartElements and calls
// launch(part, offsets) for each until one fails, with each operand's offset of the part's first
// element.
template <int kOperands, typename LaunchPart>
cudaError_t launch_parts(const LayoutPlan<kOperands>& plan,
                         const LaunchPart& launch,
                         const std::array<int64_t, kOperands>& offsets = {}) {
  if (plan.elements() <= kMostPartElements) return launch(plan, offsets);
  const int64_t inner = plan.elements() / plan.extents[0];
  const int64_t rows = std::max<int64_t>(kMostPartElements / inner, 1);
  for (int64_t first = 0; first < plan.extents[0]; first += rows) {
    LayoutPlan<kOperands> part = plan;
    part.extents[0] = std::min(rows, plan.extents[0] - first);
    std::array<int64_t, kOperands> begins = offsets;
    for (int i = 0; i < kOperands; ++i) begins[i] += first * plan.strides[i][0];
    if (part.extents[0] == 1) part.erase(0);
    if (const cudaError_t status = launch_parts<kOperands>(part, launch, begins);
        status != cudaSuccess)
      return status;
  }
  return cudaSuccess;
}

}  // namespace ridge::backends::cuda
