// SPDX-License-Identifier: Apache-2.0
// The scalars of a training, step by step, as lines of JSON and for TensorBoard. Not a subcommand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "apps/training_samples.h"
#include "cost/ceilings.h"
#include "files/log_file.h"
#include "measure/training_run.h"
#include "record/lab_record.h"
#include "record/numerics_record.h"
#include "record/run_record.h"

namespace ridge::apps {

class TrainingLog {
 public:
  // Makes the folder if it is missing. Throws a usage Error if it has a log already: TensorBoard
  // would draw both as one curve. With `resumed`, the first step of this run, goes on with that log
  // and drops the lines of metrics.jsonl from this step on.
  TrainingLog(const std::filesystem::path& folder, std::optional<int64_t> resumed);

  // Rates follow from the plan's counts; MFU is left out if the lab has no ceilings. `first_step` is
  // the optimizer's step (from 1) of step 0.
  void begin(const record::LabRecord& lab,
             const record::RunRecord& plan,
             const train::OptimizerOptions& optimizer,
             int64_t first_step);
  void add(const measure::StepEvent& event);
  void add_validation(int64_t step, double loss);  // after so many steps
  // A line of numerics.jsonl, which is made with the first one.
  void add_numerics(const record::NumericsRecord& numerics);
  // A line of samples.jsonl, which is made with the first one.
  void add_sample(const std::string& prompt, const TrainingSamples::Sample& sample);

 private:
  std::filesystem::path folder_;
  std::optional<int64_t> resumed_;
  files::LogFile lines_, events_;
  std::optional<files::LogFile> numerics_, samples_;
  record::RunRecord plan_;
  cost::ReferenceRate peak_;
  train::OptimizerOptions optimizer_;
  int64_t first_step_ = 1;
  int64_t overflows_ = 0;  // steps of this run that were skipped for them
};

}  // namespace ridge::apps
