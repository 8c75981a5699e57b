// SPDX-License-Identifier: Apache-2.0
// Decides which steps of a run are instrumented, as a pure function of the step's index. Steps are
// sampled in groups of four: plain, instrumented, instrumented, plain. If the instrument is a clock
// around each launch, every second group is reversed, so that drift affects both kinds alike.
#pragma once

#include <cstdint>

namespace ridge::measure {

class SamplingSchedule {
 public:
  // For training: half of the first 16 steps, then two of each 64, so that recording hardly slows a
  // long run. With a device's recorder: one step in sixteen, at least one and at most eight in a
  // run, because a recorded launch takes the host a fifth to a third longer.
  static SamplingSchedule training(int64_t steps, bool by_device);
  // For inference, whose runs are short: the same, but seven runs with a device's recorder.
  static SamplingSchedule inference(int64_t steps, bool by_device);
  static SamplingSchedule nothing(int64_t steps) { return {steps, 0, true}; }

  // Steps count from 0; warm-up steps are negative and never sampled.
  bool is_sampled(int64_t step) const;
  bool is_instrumented(int64_t step) const;

 private:
  SamplingSchedule(int64_t steps, int64_t dense_steps, bool by_device)
      : steps_(steps), dense_steps_(dense_steps), by_device_(by_device) {}

  int64_t steps_;
  int64_t dense_steps_;  // the first steps, all of which are sampled
  bool by_device_;
};

}  // namespace ridge::measure
