// SPDX-License-Identifier: Apache-2.0
// A training at several levels, batch sizes and lengths, and advice on it, of which the first
// pieces are tried.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/advice_trial.h"
#include "measure/machine_ceilings.h"
#include "train/training_choice.h"

namespace ridge::bench {

// Lists of levels and sizes as the user types them.
struct TrainingLabOptions {
  models::ModelOptions model;
  passes::LevelOptions level;
  backends::MachineOptions machine;
  std::string levels = "all";
  std::string profile_levels;  // empty: the last
  std::string profile_points = "first";
  std::string batch_sizes;  // empty: the model's
  std::string lengths;
  std::optional<int64_t> steps;
  int64_t warmup = 5;
  bool no_advice = false;
  int64_t trials = 1;
};

// A part of the lab's work, for a progress bar.
struct LabWork {
  std::string_view name;
  int64_t total;
  std::string_view unit;
};

struct TrainingLabListener {
  std::function<cost::Ceilings()> remeasure;  // measures the ceilings again
  measure::CeilingsNote note;
  std::function<bool()> is_stopped;
  std::function<void(const LabWork& work, const std::string& note)> tick;
  std::function<void()> measured;  // before advice is looked for
  std::function<void()> advised;   // before it is tried
  std::function<void()> tried;
};

class TrainingLab {
 public:
  // Finds every error in the options before anything runs. The options must outlive the lab.
  explicit TrainingLab(const TrainingLabOptions& options);
  bool has_tf32() const { return passes::Selection(levels_.back(), switches_).has("tf32"); }
  // The lab has the ceilings; runs, advice, trials and warnings are added to it. It stays without
  // runs if it was stopped too early for any.
  void run(const TrainingLabListener& listener, record::LabRecord& lab);

 private:
  measure::TrainingExperiment experiment(const std::string& level,
                                         int64_t batch,
                                         int64_t length) const;
  void choose_runs();
  bool levels_fit_together() const;
  measure::InterleavedSetting setting(const record::LabRecord& lab, const LabWork& work) const;
  void measure_levels(record::LabRecord& lab) const;
  void choose_detailed(record::LabRecord& lab) const;
  void warn_of_interruption(record::LabRecord& lab) const;
  void advise(record::LabRecord& lab) const;
  void try_out(const measure::TrainingExperiment& present,
               std::span<const Advice> advice,
               const backends::Backend& backend,
               record::LabRecord& lab) const;

  size_t runs() const { return levels_.size() * batches_.size() * lengths_.size(); }

  const TrainingLabOptions& o_;
  TrainingLabListener listener_;
  models::ModelChoice model_;
  std::string switches_;
  std::vector<std::string> levels_, profiled_;
  std::vector<int64_t> batches_, lengths_;
  int64_t steps_ = 0;
  bool fit_together_ = false;  // all levels fit into half of the free memory
};

// Builds and plans the experiment's step without running it, and returns its owned memory in bytes.
// Throws an out-of-memory Error if that is more than the machine's free memory.
int64_t expect_fits(const measure::TrainingExperiment& experiment,
                    const backends::Backend& backend);

}  // namespace ridge::bench
