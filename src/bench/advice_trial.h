// SPDX-License-Identifier: Apache-2.0
// Tries advice: runs the step as it is and with each change, without instruments.
#pragma once

#include <span>
#include <vector>

#include "bench/advice.h"
#include "measure/interleaved_runs.h"
#include "record/lab_record.h"

namespace ridge::bench {

struct AdviceTrials {
  std::vector<measure::TrainingExperiment> changed;  // one for each piece of advice
  measure::TrainingExperiment before;
  bool fit = false;  // all of them and the step as it is fit into half of `available_bytes`

  // The steps of all runs, for a progress bar.
  int64_t steps() const;
};

// `owned_bytes` is what the step as it is owns.
AdviceTrials plan_trials(measure::TrainingExperiment before,
                         std::span<const Advice> advice,
                         int64_t owned_bytes,
                         int64_t available_bytes);
// Runs them interleaved: all at once if they fit, or else each change with the step as it is.
// Leaves out what was cut short.
std::vector<record::TrialRecord> run_trials(const AdviceTrials& trials,
                                            std::span<const Advice> advice,
                                            measure::InterleavedSetting setting);

}  // namespace ridge::bench
