// SPDX-License-Identifier: Apache-2.0
// Orders the runs of a trial.
#include "bench/advice_trial.h"

#include <algorithm>
#include <utility>

namespace ridge::bench {

int64_t AdviceTrials::steps() const {
  const int64_t runs = std::ssize(changed) + (fit ? 1 : std::ssize(changed));
  return runs * (before.warmup_steps + before.steps);
}

AdviceTrials plan_trials(measure::TrainingExperiment before,
                         std::span<const Advice> advice,
                         int64_t owned_bytes,
                         int64_t available_bytes) {
  AdviceTrials trials;
  before.instrument = false;
  before.steps = std::max(before.steps, record::kLeastClearSteps);
  int64_t together = owned_bytes;
  for (const Advice& each : advice) {
    trials.changed.push_back(each.changed);
    trials.changed.back().instrument = false;
    trials.changed.back().steps = before.steps;
    together += each.after_peak_bytes;
  }
  trials.fit = together <= available_bytes / 2;
  trials.before = std::move(before);
  return trials;
}

std::vector<record::TrialRecord> run_trials(const AdviceTrials& trials,
                                            std::span<const Advice> advice,
                                            measure::InterleavedSetting setting) {
  std::vector<record::TrialRecord> records;
  setting.fit = trials.fit;
  const size_t all = trials.changed.size(), step = trials.fit ? all : 1;
  for (size_t first = 0; first < all; first += step) {
    std::vector<measure::TrainingExperiment> experiments{trials.before};
    for (size_t i = first; i < first + step; ++i) experiments.push_back(trials.changed[i]);
    const std::vector<record::RunRecord> measured =
        measure::run_interleaved(std::move(experiments), setting);
    if (setting.is_stopped()) break;
    for (size_t i = first; i < first + step; ++i)
      records.push_back({advice[i].record(), measured[0], measured[1 + i - first]});
  }
  return records;
}

}  // namespace ridge::bench
