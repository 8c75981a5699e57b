// SPDX-License-Identifier: Apache-2.0
// The driver of a training: it steps a trainer through its data and calls observers between the
// steps. It measures nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "train/batch.h"
#include "train/observer.h"
#include "train/trainer.h"

namespace ridge::train {

// Returns the micro-batches of one step, of a rank its part. Every rank reads the batches of all,
// so that the order of the data is the same for any number of ranks.
std::vector<Batch> read_step(BatchSource& data, const StepOptions& options);

// Called before each step; true ends the training after the steps that have begun.
using StopCheck = std::function<bool()>;

// How a step runs, by its index.
struct StepForms {
  // Whether it begins after the previous step is done and ends before the next one begins.
  std::function<bool(int64_t step)> is_alone = [](int64_t) { return false; };
  // Whether it is instrumented, unless it is inspected. Such steps run alone.
  std::function<bool(int64_t step)> is_instrumented = [](int64_t) { return false; };
};

class TrainingLoop {
 public:
  // Begins with step `first`. The trainer, the data and the observers must outlive the loop.
  TrainingLoop(Trainer& trainer, BatchSource& data, int64_t first, StepForms forms = {});
  ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  void observe(Observer& observer) { observers_.push_back(&observer); }
  // Runs the steps before `end`. A step begins before the previous one is done, unless one of them
  // runs alone or an observer has work between them. The loop ends earlier, after the steps that
  // have begun, once `is_stopped` returns true.
  void run(
      int64_t end,
      const StopCheck& is_stopped = [] { return false; });
  // Tells the observers that no step follows.
  void end();
  int64_t finished() const { return finished_; }  // the step after the last one

 private:
  bool is_due(int64_t next) const;
  bool may_begin() const;  // whether the next step may begin
  void tell_if_due();
  void step_instrumented();
  void finish(const StepResult& result);
  std::vector<Batch> read_next(bool instrumented);

  Trainer& trainer_;
  BatchSource& data_;
  StepForms forms_;
  std::vector<Observer*> observers_;
  int64_t begun_;
  int64_t finished_;
};

}  // namespace ridge::train
