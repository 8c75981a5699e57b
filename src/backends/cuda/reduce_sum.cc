// SPDX-License-Identifier: Apache-2.0
// Binding of reduce_sum: rows are summed, then columns, as reduce_sum_split.h says.
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/reduce/reduce.h"
#include "backends/reduce_sum_split.h"

namespace ridge::backends::cuda {
namespace {

std::string unsupported(const Call& call) { return unsupported_sum(call, "cuda"); }

bool sums_columns(const SumSplit& s) { return s.outer != 1; }

// Partial rows when both sides are summed.
int64_t partial_bytes(const SumSplit& s) {
  constexpr int64_t kAlignment = 16;
  return s.outer != 1 && s.inner != 1 ? round_up(s.outer * s.kept * 4, kAlignment) : 0;
}

// Then what sum_columns wants.
int64_t workspace_bytes(const Call& call) {
  SumSplit s = sum_split(call);
  return partial_bytes(s) + (sums_columns(s) ? sum_columns_workspace_bytes(s.outer, s.kept) : 0);
}

int launches(const Call& call, bool) {
  SumSplit s = sum_split(call);
  int each = (s.inner != 1 || !sums_columns(s) ? 1 : 0) +
             (sums_columns(s) ? sum_columns_launches(s.outer, s.kept) : 0);
  return static_cast<int>(s.repeats) * each;
}

template <typename T>
Launch bind_sum(const SumSplit& s, const T* x, T* y, std::byte* scratch, Device& device) {
  if (!sums_columns(s)) {
    ReduceRows<T, T> r{s.kept, s.inner, Reduction::kSum, {x, s.inner}, y};
    return launch_on(device, "reduce_sum", launch_reduce_rows<T, T>, r);
  }
  float* workspace = reinterpret_cast<float*>(scratch + partial_bytes(s));
  if (s.inner == 1) {
    SumColumns<T, T> c{s.outer, s.kept, {x, s.kept}, y, workspace};
    return launch_on(device, "reduce_sum", launch_sum_columns<T, T>, c);
  }
  float* partial = reinterpret_cast<float*>(scratch);
  ReduceRows<T, float> r{s.outer * s.kept, s.inner, Reduction::kSum, {x, s.inner}, partial};
  SumColumns<float, T> c{s.outer, s.kept, {partial, s.kept}, y, workspace};
  return [r, c, &device] {
    check(launch_reduce_rows(r, device.stream()), "reduce_sum");
    check(launch_sum_columns(c, device.stream()), "reduce_sum");
  };
}

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    SumSplit s = sum_split(call.call());
    return bind_repeats<T>(call, s, [&](const T* x, T* y) {
      return bind_sum(s, x, y, call.workspace, context.device);
    });
  });
}

}  // namespace

const CudaKernel& reduce_sum_kernel() {
  static const CudaKernel kernel{.op = "reduce_sum",
                                 .bind = bind,
                                 .workspace_bytes = workspace_bytes,
                                 .unsupported = unsupported,
                                 .launches = launches,
                                 .rounds = 2};
  return kernel;
}

}  // namespace ridge::backends::cuda
