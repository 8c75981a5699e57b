// SPDX-License-Identifier: Apache-2.0
// Predicts the gain of changing one setting: builds the changed step, costs it with the machine's
// ceilings and compares. Nothing is run and no rule of thumb is used.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cost/ceilings.h"
#include "measure/training_run.h"
#include "passes/pass.h"
#include "record/lab_record.h"

namespace ridge::bench {

struct Advice {
  std::string title;    // "turn on fuse_glu"
  std::string reason;   // the changes in the counts, in words
  std::string command;  // options of `ridge train` and `ridge lab` that make the change
  measure::TrainingExperiment changed;  // ready to run
  bool is_same_training = true;         // false if the loss curve changes (batch size, bf16)
  // Predictions for one step, before and after the change.
  double before_ns = 0, after_ns = 0;
  int64_t before_samples = 0, after_samples = 0;
  int64_t before_peak_bytes = 0, after_peak_bytes = 0;
  int64_t before_bytes = 0, after_bytes = 0;
  int64_t before_launches = 0, after_launches = 0;

  // Samples per second after over before, less 1: 0.25 = 25% faster.
  double time_gain() const;
  // Owned memory saved, as a share of the present owned memory.
  double memory_gain() const;
  record::AdviceRecord record() const;
};

// The best advice for a setting, at most `most` pieces: first those that gain time, by gain, then
// those that gain memory. Candidates: each pass toggled on or off where that is possible, the other
// levels, twice and half the batch size, bf16. Calls `listener` after each candidate with the
// number done and the total.
std::vector<Advice> advise(const measure::TrainingExperiment& present,
                           const passes::PassTarget& target,
                           const cost::Ceilings& ceilings,
                           size_t most,
                           const std::function<void(size_t done, size_t of)>& listener = {});

}  // namespace ridge::bench
