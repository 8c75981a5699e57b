// SPDX-License-Identifier: Apache-2.0
// Binding of reduce_sum. The axes fall into leading ones that are summed, kept ones, and trailing
// ones that are summed: rows are summed first, then columns. Kept axes before all of these repeat
// the sum.
#include <utility>
#include <vector>

#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/reduce.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

// [repeats, outer, kept, inner] with outer and inner summed. `plain` is false for any other
// pattern.
struct Split {
  int64_t repeats = 1, outer = 1, kept = 1, inner = 1;
  bool plain = true;
};

Split split(const Shape& shape, const std::vector<int64_t>& axes) {
  std::vector<std::pair<bool, int64_t>> runs;  // of axes that are summed or kept, with their extent
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    bool summed = false;
    for (int64_t each : axes) summed = summed || shape.axis(static_cast<int>(each)) == axis;
    if (runs.empty() || runs.back().first != summed) runs.emplace_back(summed, 1);
    runs.back().second *= shape[axis];
  }
  Split s;
  size_t at = 0;
  auto take = [&](bool summed) {
    return at < runs.size() && runs[at].first == summed ? runs[at++].second : 1;
  };
  if (runs.size() > 2 && !runs[0].first) s.repeats = take(false);
  s.outer = take(true);
  s.kept = take(false);
  s.inner = take(true);
  s.plain = at == runs.size();
  return s;
}

std::string unsupported(const Call& call) {
  if (split(call.inputs[0].shape, call.attrs.integers("axes")).plain) return "";
  return fmt::format(
      "the cuda backend does not sum the axes [{}] of {}: too many runs of kept and summed ones",
      fmt::join(call.attrs.integers("axes"), ","), call.inputs[0].str());
}

bool sums_columns(const Split& s) { return s.outer != 1; }

// Partial rows when both sides are summed.
int64_t partial_bytes(const Split& s) {
  constexpr int64_t kAlignment = 16;
  return s.outer != 1 && s.inner != 1 ? round_up(s.outer * s.kept * 4, kAlignment) : 0;
}

// Then what sum_columns wants.
int64_t workspace_bytes(const Call& call) {
  Split s = split(call.inputs[0].shape, call.attrs.integers("axes"));
  return partial_bytes(s) + (sums_columns(s) ? sum_columns_workspace_bytes(s.outer, s.kept) : 0);
}

int launches(const Call& call, bool) {
  Split s = split(call.inputs[0].shape, call.attrs.integers("axes"));
  int each = (s.inner != 1 || !sums_columns(s) ? 1 : 0) +
             (sums_columns(s) ? sum_columns_launches(s.outer, s.kept) : 0);
  return static_cast<int>(s.repeats) * each;
}

template <typename T>
Launch bind_sum(const Split& s, const T* x, T* y, std::byte* scratch, Device& device) {
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
    Split s = split(call.inputs[0].type.shape, call.attrs().integers("axes"));
    std::vector<Launch> sums;
    for (int64_t i = 0; i < s.repeats; ++i)
      sums.push_back(bind_sum(s, call.inputs[0].as<const T>() + i * s.outer * s.kept * s.inner,
                              call.outputs[0].as<T>() + i * s.kept, call.workspace,
                              context.device));
    if (sums.size() == 1) return sums[0];
    return [sums = std::move(sums)] {
      for (const Launch& sum : sums) sum();
    };
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
