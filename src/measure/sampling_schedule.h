// SPDX-License-Identifier: Apache-2.0
// Which steps of a run are instrumented, as a pure function of the step's index. Steps are sampled
// in fours: plain, instrumented, instrumented, plain, and where a clock around each launch is the
// instrument, the next four the other way round, so that drift hits both kinds alike.
#pragma once

#include <cstdint>

namespace ridge::measure {

class SamplingSchedule {
 public:
  // Training: half of the first 16 steps, then two of each 64, so that a long run is hardly slowed
  // by what it records. With a device's recorder one step in sixteen, one to eight of the run,
  // since recorded launches take the host a fifth to a third longer.
  static SamplingSchedule training(int64_t steps, bool by_device);
  // Inference, whose runs are short: the same, and seven runs where a device records.
  static SamplingSchedule inference(int64_t steps, bool by_device);
  static SamplingSchedule nothing(int64_t steps) { return {steps, 0, true}; }

  // Steps from 0; warm-up steps are negative and never sampled.
  bool is_sampled(int64_t step) const;
  bool is_instrumented(int64_t step) const;

 private:
  SamplingSchedule(int64_t steps, int64_t dense_steps, bool by_device)
      : steps_(steps), dense_steps_(dense_steps), by_device_(by_device) {}

  int64_t steps_;
  int64_t dense_steps_;  // at the start, all of them sampled
  bool by_device_;
};

}  // namespace ridge::measure
