// SPDX-License-Identifier: Apache-2.0
// Numbers the ranks of groups.
#include "plan/rank_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ridge::plan {

std::string stage_pair(int64_t from, int64_t to, int64_t stages) {
  const int64_t first = stages == 2 ? 0 : to == (from + 1) % stages ? from : to;
  return fmt::format("{}.{}", kPipelineGroup, first);
}

std::vector<int64_t> RankLayout::members(std::string_view group, int64_t size, int64_t rank) const {
  std::vector<int64_t> all;
  const std::string_view stages = kPipelineGroup;
  if (group.starts_with(stages) && group.size() > stages.size()) {
    int64_t from = 0;
    std::from_chars(group.data() + stages.size() + 1, group.data() + group.size(), from);
    for (const int64_t each : {from, (from + 1) % pipeline})
      all.push_back(each * of_stage() + rank % of_stage());
    std::ranges::sort(all);
    return all;
  }
  // Ranks of "tensor" and of its parts are neighbours; those of "data" are `tensor` apart.
  const int64_t step = group == stages ? of_stage() : group == "data" ? tensor : 1;
  const int64_t first = rank - rank / step % size * step;
  for (int64_t i = 0; i < size; ++i) all.push_back(first + i * step);
  return all;
}

}  // namespace ridge::plan
