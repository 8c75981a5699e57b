// SPDX-License-Identifier: Apache-2.0
// Fills the inputs part by part.
#include "serve/run_inputs.h"

#include <algorithm>
#include <numeric>

namespace ridge::serve {

void RunInputs::clear(models::InferenceTask next_task) {
  task = next_task;
  ids_on_device = false;
  reach = 0;
  ids.clear(), positions.clear(), slots.clear(), labels.clear(), rows.clear(), row_slots.clear();
  std::ranges::fill(next_positions, -1);
  if (task != models::InferenceTask::kDecode) return;
  positions.assign(next_positions.size(), -1);
  slots.resize(next_positions.size());
  std::iota(slots.begin(), slots.end(), 0);
}

void RunInputs::add(int64_t slot, int64_t begin, std::span<const int32_t> added, bool samples) {
  const auto s = static_cast<size_t>(slot);
  const int64_t end = begin + std::ssize(added);
  ids.insert(ids.end(), added.begin(), added.end());
  for (int64_t p = begin; p < end; ++p) positions.push_back(static_cast<int32_t>(p));
  slots.resize(positions.size(), static_cast<int32_t>(slot));
  reach = std::max(reach, end);
  if (!samples) return;
  logit_rows[s] = std::ssize(rows);
  rows.push_back(static_cast<int32_t>(positions.size()) - 1);
  row_slots.push_back(static_cast<int32_t>(slot));
  next_positions[s] = static_cast<int32_t>(end);
}

void RunInputs::add_decode(int64_t slot, int64_t position) {
  const auto s = static_cast<size_t>(slot);
  positions[s] = static_cast<int32_t>(position);
  next_positions[s] = positions[s] + 1;
  logit_rows[s] = slot;
  reach = std::max(reach, position + 1);
}

}  // namespace ridge::serve
