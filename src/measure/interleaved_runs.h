// SPDX-License-Identifier: Apache-2.0
// Runs training experiments interleaved, so that a disturbance of the machine affects all of them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "measure/training_run.h"

namespace ridge::measure {

struct InterleavedSetting {
  // Whether the experiments fit into memory together. If not, each runs to its end before the next.
  bool fit = false;
  const cost::Ceilings* ceilings = nullptr;  // null: nothing is predicted
  std::function<std::unique_ptr<backends::Backend>(const TrainingExperiment&)> make_backend;
  train::StopCheck is_stopped = [] { return false; };
  std::function<void(const TrainingExperiment&, const train::StepEvent&)> listener = {};
};

// The records in the experiments' order. An instrument serves only one program at a time, so
// experiments with one are not interleaved. If it was stopped, the records are those of the
// experiments of which enough steps were measured.
std::vector<record::RunRecord> run_interleaved(std::vector<TrainingExperiment> experiments,
                                               const InterleavedSetting& setting);

}  // namespace ridge::measure
