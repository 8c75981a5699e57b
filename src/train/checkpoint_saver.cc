// SPDX-License-Identifier: Apache-2.0
// Collects the state between two steps.
#include "train/checkpoint_saver.h"

namespace ridge::train {

bool CheckpointSaver::is_due(int64_t next) {
  writer_.expect_no_failure();
  if (next <= schedule_.resumed.value_or(0)) return false;
  // All ranks save together, because each may have a part of the tensors.
  const RankShare& shard = trainer_.options().shard;
  const bool is_wished = schedule_.request.is_set();
  return next % schedule_.every == 0 ||
         (shard.all == nullptr ? is_wished : shard.all->any(is_wished));
}

void CheckpointSaver::end(int64_t steps) {
  work(steps);
  writer_.wait();
}

void CheckpointSaver::work(int64_t steps) {
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
  writer_.save(trainer_, state, schedule_.free_bytes);
  saved_ = steps;
  schedule_.request.clear();
}

}  // namespace ridge::train
