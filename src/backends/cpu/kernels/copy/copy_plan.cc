// SPDX-License-Identifier: Apache-2.0
// Reduces a strided copy to its simplest form.
#include "backends/cpu/kernels/copy/copy_plan.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

struct Dimension {
  int64_t extent;
  int64_t source;
  int64_t target;
};

// Collects the dimensions of more than one element by falling target stride, and joins an outer one
// to the inner one where it continues it in both layouts. Returns their number.
int simplify(const CopyLayout& layout, Dimension* dims) {
  int count = 0;
  for (int d = 0; d < layout.rank; ++d) {
    if (layout.extents[d] == 1) continue;
    dims[count++] = {layout.extents[d], layout.source_strides[d], layout.target_strides[d]};
  }
  std::stable_sort(dims, dims + count,
                   [](const Dimension& a, const Dimension& b) { return a.target > b.target; });
  int last = 0;
  for (int d = 1; d < count; ++d) {
    Dimension& outer = dims[last];
    const Dimension& next = dims[d];
    if (outer.source == next.source * next.extent && outer.target == next.target * next.extent) {
      outer = {outer.extent * next.extent, next.source, next.target};
    } else {
      dims[++last] = next;
    }
  }
  return count == 0 ? 0 : last + 1;
}

}  // namespace

CopyPlan plan_copy(const CopyLayout& layout) {
  RIDGE_CHECK(layout.rank >= 0 && layout.rank <= kCopyMaxRank, "[copy] rank {}", layout.rank);
  CopyPlan plan;
  plan.elements = 1;
  for (int d = 0; d < layout.rank; ++d) {
    RIDGE_CHECK(
        layout.extents[d] >= 0 && layout.source_strides[d] >= 0 && layout.target_strides[d] >= 0,
        "[copy] dimension {} has extent {}, strides {} and {}", d, layout.extents[d],
        layout.source_strides[d], layout.target_strides[d]);
    plan.elements *= layout.extents[d];
  }
  if (plan.elements == 0) return plan;
  Dimension dims[kCopyMaxRank];
  int count = simplify(layout, dims);
  if (count == 0) return plan;  // one element
  const Dimension inner = dims[--count];
  plan.inner = inner.extent;
  plan.inner_source = inner.source;
  plan.inner_target = inner.target;
  Dimension* contiguous =
      std::find_if(dims, dims + count, [](const Dimension& d) { return d.source == 1; });
  if (inner.target != 1) {
    plan.path = CopyPath::kScalar;
  } else if (inner.source == 1) {
    plan.path = CopyPath::kRuns;
  } else if (inner.source == 0) {
    plan.path = CopyPath::kRepeat;
  } else if (contiguous != dims + count) {
    plan.path = CopyPath::kTranspose;
    plan.across = contiguous->extent;
    plan.across_source = contiguous->source;
    plan.across_target = contiguous->target;
    std::move(contiguous + 1, dims + count, contiguous);
    --count;
  } else {
    plan.path = CopyPath::kScalar;
  }
  plan.outer_rank = count;
  for (int d = 0; d < count; ++d) {
    plan.outer_count *= dims[d].extent;
    plan.outer_extents[d] = dims[d].extent;
    plan.outer_source[d] = dims[d].source;
    plan.outer_target[d] = dims[d].target;
  }
  return plan;
}

}  // namespace ridge::backends::cpu
