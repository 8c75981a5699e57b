// SPDX-License-Identifier: Apache-2.0
// Binding of reduce_sum. The axes fall into leading ones that are summed, kept ones, and trailing ones that are summed:
// rows are summed first, then columns.
#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/reduce.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

// [outer, kept, inner] with outer and inner summed. `plain` is false for any other pattern.
struct Split {
  int64_t outer = 1, kept = 1, inner = 1;
  bool plain = true;
};

Split split(const Shape& shape, const std::vector<int64_t>& axes) {
  Split s;
  int stage = 0;  // 0 outer, 1 kept, 2 inner
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    bool summed = false;
    for (int64_t each : axes) summed = summed || shape.axis(static_cast<int>(each)) == axis;
    if (summed && stage == 1) stage = 2;
    if (!summed && stage == 0) stage = 1;
    if (!summed && stage == 2) s.plain = false;
    (stage == 0 ? s.outer : stage == 1 ? s.kept : s.inner) *= shape[axis];
  }
  return s;
}

std::string unsupported(const Call& call) {
  if (split(call.inputs[0].shape, call.attrs.integers("axes")).plain) return "";
  return fmt::format("the cpu backend sums leading and trailing axes, not those between in {}", call.inputs[0].str());
}

// Partial rows when both sides are summed, then what sum_columns wants.
int64_t workspace_bytes(const Call& call) {
  Split s = split(call.inputs[0].shape, call.attrs.integers("axes"));
  int64_t bytes = s.outer > 1 ? sum_columns_workspace_bytes(s.outer, s.kept) : 0;
  if (s.outer > 1 && s.inner > 1) bytes += s.outer * s.kept * 4;
  return bytes;
}

template <typename T>
Launch bind_typed(const BindCall& call) {
  Split s = split(call.inputs[0].type.shape, call.attrs().integers("axes"));
  const T* x = call.inputs[0].as<const T>();
  T* y = call.outputs[0].as<T>();
  if (s.outer == 1) {
    ReduceRows<T, T> r{s.kept, s.inner, Reduction::kSum, {x, s.inner}, y};
    return [r] { reduce_rows(r); };
  }
  float* workspace = reinterpret_cast<float*>(call.workspace);
  if (s.inner == 1) {
    SumColumns<T, T> c{s.outer, s.kept, {x, s.kept}, y, workspace};
    return [c] { sum_columns(c); };
  }
  float* partial = workspace;
  ReduceRows<T, float> r{s.outer * s.kept, s.inner, Reduction::kSum, {x, s.inner}, partial};
  SumColumns<float, T> c{s.outer, s.kept, {partial, s.kept}, y, workspace + s.outer * s.kept};
  return [r, c] {
    reduce_rows(r);
    sum_columns(c);
  };
}

Launch bind(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype,
                  [&](auto element) -> Launch { return bind_typed<decltype(element)>(call); });
}

}  // namespace

const CpuKernel& reduce_sum_kernel() {
  static const CpuKernel kernel{
      .op = "reduce_sum", .bind = bind, .workspace_bytes = workspace_bytes, .unsupported = unsupported};
  return kernel;
}

}  // namespace ridge::backends::cpu
