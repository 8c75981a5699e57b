// SPDX-License-Identifier: Apache-2.0
// Binding of reduce_sum: rows are summed, then columns, as reduce_sum_split.h says.
#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/reduce.h"
#include "backends/reduce_sum_split.h"

namespace ridge::backends::cpu {
namespace {

std::string unsupported(const Call& call) { return unsupported_sum(call, "cpu"); }

// Partial rows when both sides are summed, then what sum_columns wants.
int64_t workspace_bytes(const Call& call) {
  SumSplit s = sum_split(call);
  int64_t bytes = s.outer != 1 ? sum_columns_workspace_bytes(s.outer, s.kept) : 0;
  if (s.outer != 1 && s.inner != 1) bytes += s.outer * s.kept * 4;
  return bytes;
}

template <typename T>
Launch bind_sum(const SumSplit& s, const T* x, T* y, std::byte* scratch) {
  if (s.outer == 1) {
    ReduceRows<T, T> r{s.kept, s.inner, Reduction::kSum, {x, s.inner}, y};
    return [r] { reduce_rows(r); };
  }
  float* workspace = reinterpret_cast<float*>(scratch);
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
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    SumSplit s = sum_split(call.call());
    return bind_repeats<T>(call, s,
                           [&](const T* x, T* y) { return bind_sum(s, x, y, call.workspace); });
  });
}

}  // namespace

const CpuKernel& reduce_sum_kernel() {
  static const CpuKernel kernel{.op = "reduce_sum",
                                .bind = bind,
                                .workspace_bytes = workspace_bytes,
                                .unsupported = unsupported};
  return kernel;
}

}  // namespace ridge::backends::cpu
