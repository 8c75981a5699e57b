// SPDX-License-Identifier: Apache-2.0
// Binding of reduce_sum. The axes fall into leading ones that are summed, kept ones, and trailing
// ones that are summed: rows are summed first, then columns. Kept axes before all of these repeat
// the sum.
#include <utility>
#include <vector>

#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/reduce.h"
#include "base/error.h"

namespace ridge::backends::cpu {
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
      "the cpu backend does not sum the axes [{}] of {}: too many runs of kept and summed ones",
      fmt::join(call.attrs.integers("axes"), ","), call.inputs[0].str());
}

// Partial rows when both sides are summed, then what sum_columns wants.
int64_t workspace_bytes(const Call& call) {
  Split s = split(call.inputs[0].shape, call.attrs.integers("axes"));
  int64_t bytes = s.outer != 1 ? sum_columns_workspace_bytes(s.outer, s.kept) : 0;
  if (s.outer != 1 && s.inner != 1) bytes += s.outer * s.kept * 4;
  return bytes;
}

template <typename T>
Launch bind_sum(const Split& s, const T* x, T* y, std::byte* scratch) {
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
    Split s = split(call.inputs[0].type.shape, call.attrs().integers("axes"));
    std::vector<Launch> sums;
    for (int64_t i = 0; i < s.repeats; ++i)
      sums.push_back(bind_sum(s, call.inputs[0].as<const T>() + i * s.outer * s.kept * s.inner,
                              call.outputs[0].as<T>() + i * s.kept, call.workspace));
    if (sums.size() == 1) return sums[0];
    return [sums = std::move(sums)] {
      for (const Launch& sum : sums) sum();
    };
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
