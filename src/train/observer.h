// SPDX-License-Identifier: Apache-2.0
// The interface of work between the steps of a training, such as a validation, a checkpoint or a
// log, and two small observers. TrainingLoop calls its observers at the boundaries between steps,
// in the order in which they were added.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "train/trainer.h"

namespace ridge::train {

struct StepEvent {
  int64_t index = 0;  // 0 is the first measured step; warm-up steps are negative
  bool instrumented = false;
  const StepResult& result;
};

class Observer {
 public:
  virtual ~Observer() = default;

  // Whether it has work before step `next`. It is asked before each step.
  virtual bool is_due(int64_t /*next*/) { return false; }
  // Does the work that is due after so many steps.
  virtual void work(int64_t /*steps*/) {}
  // Called before step `next` if any observer has work then. The steps before it are finished and
  // reported.
  virtual void at_boundary(int64_t next) {
    if (is_due(next)) work(next);
  }
  // Called when the step's batches have been read, before it begins.
  virtual void before_step(int64_t /*step*/, bool /*instrumented*/) {}
  // Whether the update of a step with this loss is left out. It is asked only if the trainer's
  // options separate the update.
  virtual bool skips_update(double /*loss*/) { return false; }
  virtual void after_step(const StepEvent& /*event*/) {}
  // Called after the last step, when so many are done.
  virtual void end(int64_t /*steps*/) {}
};

// Calls a function after each step.
class StepListener final : public Observer {
 public:
  explicit StepListener(std::function<void(const StepEvent&)> listen)
      : listen_(std::move(listen)) {}
  void after_step(const StepEvent& event) override { listen_(event); }

 private:
  std::function<void(const StepEvent&)> listen_;
};

// Inspects the last of `steps` steps, and those before it at the end of each `every` steps (0:
// none). It must follow the observers that run other work on the trainer.
class NumericsInspection final : public Observer {
 public:
  NumericsInspection(Trainer& trainer, int64_t every, int64_t steps)
      : trainer_(trainer), every_(every), steps_(steps) {}

  bool is_due(int64_t next) override {
    if (next < 0) return false;
    return next + 1 == steps_ || (every_ > 0 && (next + 1) % every_ == 0);
  }
  void work(int64_t) override { trainer_.inspect_next(); }

 private:
  Trainer& trainer_;
  int64_t every_, steps_;
};

}  // namespace ridge::train
