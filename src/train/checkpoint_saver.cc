// SPDX-License-Identifier: Apache-2.0
// Collects the state between two steps.
#include "train/checkpoint_saver.h"

#include <utility>

namespace ridge::train {

CheckpointSaver::CheckpointSaver(Trainer& trainer,
                                 CheckpointParts parts,
                                 CheckpointWriter& writer,
                                 int64_t every,
                                 std::optional<int64_t> resumed,
                                 SaveRequest request,
                                 int64_t free_bytes)
    : trainer_(trainer),
      parts_(std::move(parts)),
      writer_(writer),
      every_(every),
      first_(resumed.value_or(0)),
      saved_(resumed.value_or(-1)),
      request_(std::move(request)),
      free_bytes_(free_bytes) {}

bool CheckpointSaver::is_due(int64_t next) {
  writer_.expect_no_failure();
  return next > first_ && (next % every_ == 0 || request_.is_set());
}

void CheckpointSaver::pause(int64_t next) {
  if (is_due(next)) save(next);
}

void CheckpointSaver::end(int64_t steps) {
  save(steps);
  writer_.wait();
}

void CheckpointSaver::save(int64_t steps) {
  if (saved_ == steps) return;
  TrainingState state;
  state.step = steps;
  state.windows = parts_.data.place();
  const int64_t windows = state.windows - parts_.begin.windows;
  state.tokens = parts_.begin.tokens + windows * trainer_.options().sequence;
  if (parts_.validation != nullptr) state.validation_loss = parts_.validation->loss_after(steps);
  if (parts_.guard != nullptr) state.guard = parts_.guard->losses();
  state.loss_scale = trainer_.loss_scale();
  state.settings = parts_.settings;
  writer_.save(trainer_, state, free_bytes_);
  saved_ = steps;
  request_.clear();
}

}  // namespace ridge::train
