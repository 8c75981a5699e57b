// SPDX-License-Identifier: Apache-2.0
// The scalars of a training, step by step, as lines of JSON and for TensorBoard. Not a subcommand.
#pragma once

#include <filesystem>

#include "cost/ceilings.h"
#include "files/log_file.h"
#include "measure/training_run.h"
#include "record/lab_record.h"
#include "record/run_record.h"

namespace ridge::apps {

class TrainingLog {
 public:
  // Makes the folder if it is missing. Throws a usage Error if it has a log already: TensorBoard
  // would draw both as one curve.
  explicit TrainingLog(const std::filesystem::path& folder);

  // Rates follow from the plan's counts; MFU is left out if the lab has no ceilings. `first_step` is
  // the optimizer's step (from 1) of step 0.
  void begin(const record::LabRecord& lab,
             const record::RunRecord& plan,
             const train::OptimizerOptions& optimizer,
             int64_t first_step);
  void add(const measure::StepEvent& event);

 private:
  files::LogFile lines_, events_;
  record::RunRecord plan_;
  cost::ReferenceRate peak_;
  train::OptimizerOptions optimizer_;
  int64_t first_step_ = 1;
};

}  // namespace ridge::apps
