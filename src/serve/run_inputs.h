// SPDX-License-Identifier: Apache-2.0
// The inputs of one run of a bucket: its tokens, and the rows that sample the next ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/forward_graph.h"

namespace ridge::serve {

struct RunInputs {
  explicit RunInputs(int64_t slot_count)
      : next_positions(static_cast<size_t>(slot_count), -1),
        logit_rows(static_cast<size_t>(slot_count), -1) {}

  // Begins another run.
  void clear(models::InferenceTask next_task);
  // Adds ids of a sequence from position `begin` on. If `samples`, its next token is sampled.
  void add(int64_t slot, int64_t begin, std::span<const int32_t> added, bool samples);
  // Adds the slot's last token to a run that has a place for each slot.
  void add_decode(int64_t slot, int64_t position);

  models::InferenceTask task = models::InferenceTask::kPrefill;
  bool ids_on_device = false;  // The ids are the sampled tokens of the slots.
  int64_t reach = 0;           // All positions are below it.
  std::vector<int32_t> ids, positions, slots, labels;  // by token
  std::vector<int32_t> rows, row_slots;                // by row
  std::vector<int32_t> next_positions;  // by slot, that of its sampled token; -1: none
  std::vector<int64_t> logit_rows;      // by slot
};

}  // namespace ridge::serve
