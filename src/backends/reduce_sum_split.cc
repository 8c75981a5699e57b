// SPDX-License-Identifier: Apache-2.0
// Runs of summed and kept axes.
#include "backends/reduce_sum_split.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace ridge::backends {

SumSplit sum_split(const Call& call) {
  const Shape& shape = call.inputs[0].shape;
  std::vector<std::pair<bool, int64_t>> runs;  // of axes that are summed or kept, with their extent
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    bool summed = false;
    for (int64_t each : call.attrs.integers("axes"))
      summed = summed || shape.axis(static_cast<int>(each)) == axis;
    if (runs.empty() || runs.back().first != summed) runs.emplace_back(summed, 1);
    runs.back().second *= shape[axis];
  }
  SumSplit s;
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

std::string unsupported_sum(const Call& call, std::string_view backend) {
  if (sum_split(call).plain) return "";
  return fmt::format(
      "the {} backend does not sum the axes [{}] of {}: too many runs of kept and summed ones",
      backend, fmt::join(call.attrs.integers("axes"), ","), call.inputs[0].str());
}

}  // namespace ridge::backends
