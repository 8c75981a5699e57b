// SPDX-License-Identifier: Apache-2.0
// Binding of reduce_sum. The axes are split into leading summed axes, kept axes and trailing summed
// axes: rows are summed first, then columns. For kept axes in front of all of these, the sum is
// repeated.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "backends/bind/bindings.h"
#include "backends/in_order.h"
#include "base/shape.h"

namespace ridge::backends::bind {
namespace {

// [repeats, outer, kept, inner] with outer and inner summed. `plain` is false for any other pattern
// of summed axes.
struct SumSplit {
  int64_t repeats = 1, outer = 1, kept = 1, inner = 1;
  bool plain = true;

  bool sums_columns() const { return outer != 1; }
  bool sums_rows() const { return inner != 1 || !sums_columns(); }
};

// Maximal runs of summed or kept axes, with their extents.
std::vector<std::pair<bool, int64_t>> runs_of(const Call& call) {
  const Shape& shape = call.inputs[0].shape;
  std::vector<std::pair<bool, int64_t>> runs;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    bool summed = false;
    for (int64_t each : call.attrs.integers("axes"))
      summed = summed || shape.axis(static_cast<int>(each)) == axis;
    if (runs.empty() || runs.back().first != summed) runs.emplace_back(summed, 1);
    runs.back().second *= shape[axis];
  }
  return runs;
}

SumSplit sum_split(const Call& call) {
  const std::vector<std::pair<bool, int64_t>> runs = runs_of(call);
  SumSplit s;
  size_t at = 0;
  auto take = [&](bool summed) {
    return at < runs.size() && runs[at].first == summed ? runs[at++].second : 1;
  };
  if (runs.size() > 2 && !runs[0].first) s.repeats = take(false);
  // A sum of all is that of a row, unless several blocks should share it.
  constexpr int64_t kLongRow = 32768;
  if (runs.size() > 1 || (runs.size() == 1 && runs[0].second > kLongRow)) s.outer = take(true);
  s.kept = take(false);
  s.inner = take(true);
  s.plain = at == runs.size();
  return s;
}

std::string unsupported(const SumKernels& kernels, const Call& call) {
  if (sum_split(call).plain) return "";
  return fmt::format(
      "the {} backend does not sum the axes [{}] of {}: too many runs of kept and summed ones",
      kernels.backend, fmt::join(call.attrs.integers("axes"), ","), call.inputs[0].str());
}

// Row sums are stored as partial results when both leading and trailing axes are summed.
int64_t partial_bytes(const SumKernels& kernels, const SumSplit& s) {
  return s.sums_columns() && s.inner != 1
             ? round_up(s.outer * s.kept * 4, kernels.workspace_alignment)
             : 0;
}

// The partial results are followed by the workspace of sum_columns.
int64_t workspace_bytes(const SumKernels& kernels, const SumSplit& s) {
  return partial_bytes(kernels, s) +
         (s.sums_columns() ? kernels.columns_workspace_bytes(s.outer, s.kept) : 0);
}

int launches(const SumKernels& kernels, const SumSplit& s) {
  if (kernels.columns_launches == nullptr) return 1;
  return static_cast<int>(s.repeats) *
         ((s.sums_rows() ? 1 : 0) +
          (s.sums_columns() ? kernels.columns_launches(s.outer, s.kept) : 0));
}

// One of the repeats: the sum of [outer, kept, inner] at x to [kept] at y.
template <typename T>
Launch bind_sum(const SumKernels& kernels,
                const BindCall& call,
                const SumSplit& s,
                int64_t repeat) {
  const T* x = call.inputs[0].as<const T>() + repeat * s.outer * s.kept * s.inner;
  T* y = call.outputs[0].as<T>() + repeat * s.kept;
  const char* op = op_of(call);
  if (!s.sums_columns())
    return kernels.rows(ReduceRows<T, T>{s.kept, s.inner, Reduction::kSum, {x, s.inner}, y}, op);
  float* partial = reinterpret_cast<float*>(call.workspace);
  float* workspace = reinterpret_cast<float*>(call.workspace + partial_bytes(kernels, s));
  if (s.inner == 1)
    return kernels.columns(SumColumns<T, T>{s.outer, s.kept, {x, s.kept}, y, workspace}, op);
  ReduceRows<T, float> rows{s.outer * s.kept, s.inner, Reduction::kSum, {x, s.inner}, partial};
  SumColumns<float, T> columns{s.outer, s.kept, {partial, s.kept}, y, workspace};
  return in_order({kernels.rows_to_f32(rows, op), kernels.columns_of_f32(columns, op)});
}

Launch bind_repeats(const SumKernels& kernels, const BindCall& call) {
  return by_float_dtype(call.inputs[0].type.dtype, [&](auto element) {
    using T = decltype(element);
    const SumSplit s = sum_split(call.call());
    std::vector<Launch> sums;
    for (int64_t i = 0; i < s.repeats; ++i) sums.push_back(bind_sum<T>(kernels, call, s, i));
    return in_order(std::move(sums));
  });
}

}  // namespace

Kernel reduce_sum(const SumKernels& kernels) {
  return {.op = "reduce_sum",
          .bind = [kernels](const BindCall& call) { return bind_repeats(kernels, call); },
          .workspace_bytes =
              [kernels](const Call& call) { return workspace_bytes(kernels, sum_split(call)); },
          .unsupported = [kernels](const Call& call) { return unsupported(kernels, call); },
          .launches = [kernels](const Call& call) { return launches(kernels, sum_split(call)); }};
}

}  // namespace ridge::backends::bind
