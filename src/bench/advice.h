// SPDX-License-Identifier: Apache-2.0
// Predicts the gain of changing one or two settings: builds the changed step, costs it with the
// machine's ceilings and compares. Nothing is run and no rule of thumb is used.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
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
  // `changed` is predicted with these.
  std::shared_ptr<const cost::Ceilings> ceilings;
  bool is_same_training = true;  // false if the loss curve changes (batch size, length, bf16)
  double confidence = 1;         // see record::AdviceRecord
  // Predictions for one step, before and after the change.
  double before_ns = 0, after_ns = 0;
  int64_t before_tokens = 0, after_tokens = 0;
  int64_t before_peak_bytes = 0, after_peak_bytes = 0;
  int64_t before_bytes = 0, after_bytes = 0;
  int64_t before_launches = 0, after_launches = 0;

  // Tokens per second after over before, less 1: 0.25 = 25% faster.
  double time_gain() const;
  // Owned memory saved, as a share of the present owned memory.
  double memory_gain() const;
  record::AdviceRecord record() const;
};

struct AdviceSearch {
  size_t most = 3;
  // Ends the search once it has taken this long, pairs of the best changes coming last.
  double seconds = 15;
  // record::gain_error of the lab; 0: predictions are exact.
  double gain_error = 0;
  std::vector<int> threads = {};  // numbers of threads to try
  // The ceilings of an experiment with other threads, or with GEMMs in TF32; null if they are
  // unknown. Without this function such changes are not tried.
  std::function<std::shared_ptr<const cost::Ceilings>(const measure::TrainingExperiment&)>
      ceilings_of = {};
  // Called after each costed change with the number done and the total, which grows once.
  std::function<void(size_t done, size_t of)> listener = {};
};

// The best advice for a setting: first changes that gain time with a confidence of
// kLeastConfidence, by gain, then those that gain memory. Candidates: each pass toggled on or off
// where that is possible, the other levels, other batch sizes, lengths and numbers of threads,
// bf16, TF32, recomputation of a part of the layers; and pairs of the ten best of these, if both
// together gain more than each alone. Of changes to the same settings only the best is returned.
std::vector<Advice> advise(const measure::TrainingExperiment& present,
                           const passes::PassTarget& target,
                           const cost::Ceilings& ceilings,
                           const AdviceSearch& search);
inline constexpr double kLeastConfidence = 0.7;

}  // namespace ridge::bench
