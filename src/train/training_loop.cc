// SPDX-License-Identifier: Apache-2.0
// Begins and finishes steps. At most two are under way at a time.
#include "train/training_loop.h"

#include <utility>

namespace ridge::train {

namespace {

template <typename Element>
void keep(std::vector<Element>& all, const RankShare& shard) {
  const auto part = std::ssize(all) / shard.ranks;
  all = {all.begin() + shard.rank * part, all.begin() + (shard.rank + 1) * part};
}

}  // namespace

std::vector<Batch> read_step(BatchSource& data, const StepOptions& options) {
  const RankShare& shard = options.shard;
  std::vector<Batch> batches;
  for (int64_t i = 0; i < options.micro_batches; ++i) {
    Batch& batch = batches.emplace_back(data.next(options.batch_size * shard.ranks));
    keep(batch.ids, shard);
    keep(batch.positions, shard);
    keep(batch.labels, shard);
    keep(batch.rows, shard);
  }
  return batches;
}

TrainingLoop::TrainingLoop(Trainer& trainer, BatchSource& data, int64_t first, StepForms forms)
    : trainer_(trainer), data_(data), forms_(std::move(forms)), begun_(first), finished_(first) {
  if (!trainer.options().separates_update) return;
  trainer.guard([this](double loss) {
    bool skips = false;
    for (Observer* each : observers_) skips = each->skips_update(loss) || skips;
    return skips;
  });
}

TrainingLoop::~TrainingLoop() {
  if (trainer_.options().separates_update) trainer_.guard({});
}

// All are asked: the question may throw the Error of work that failed in the meantime.
bool TrainingLoop::is_due(int64_t next) const {
  bool due = false;
  for (Observer* each : observers_) due = each->is_due(next) || due;
  return due;
}

bool TrainingLoop::may_begin() const {
  const int64_t under_way = begun_ - finished_;
  return under_way == 0 || (under_way == 1 && !forms_.is_alone(finished_) &&
                            !forms_.is_alone(begun_) && !is_due(begun_));
}

void TrainingLoop::tell_if_due() {
  if (!is_due(begun_)) return;
  for (Observer* each : observers_) each->at_boundary(begun_);
}

std::vector<Batch> TrainingLoop::read_next(bool instrumented) {
  std::vector<Batch> batches = read_step(data_, trainer_.options());
  for (Observer* each : observers_) each->before_step(begun_, instrumented);
  ++begun_;
  return batches;
}

void TrainingLoop::step_instrumented() {
  const std::vector<Batch> batches = read_next(true);
  finish(trainer_.step(batches, true));
}

void TrainingLoop::finish(const StepResult& result) {
  const StepEvent event{finished_++, !result.profiles.empty(), result};
  for (Observer* each : observers_) each->after_step(event);
}

// Ranks ask each other whether to stop, and their observers differ: the question comes once before
// each step begins, whether or not the step before is done then.
void TrainingLoop::run(int64_t end, const StopCheck& is_stopped) {
  bool stops = false;
  auto goes_on = [&, asked = begun_ - 1]() mutable {
    if (asked < begun_) stops = stops || is_stopped(), asked = begun_;
    return !stops;
  };
  while (finished_ < end) {
    if (begun_ == finished_) {
      if (!goes_on()) break;
      tell_if_due();
      if (forms_.is_instrumented(begun_) && !trainer_.inspects_next()) {
        step_instrumented();
        continue;
      }
    }
    while (begun_ < end && may_begin() && goes_on()) trainer_.begin_step(read_next(false));
    finish(trainer_.finish_step());
  }
}

void TrainingLoop::end() {
  for (Observer* each : observers_) each->end(finished_);
}

}  // namespace ridge::train
