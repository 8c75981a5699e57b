// SPDX-License-Identifier: Apache-2.0
// The figures of each step of a training: rates and memory next to its results.
#pragma once

#include <cstdint>
#include <functional>

#include "cost/ceilings.h"
#include "record/run_record.h"
#include "record/training_record.h"
#include "train/observer.h"
#include "train/optimizer.h"

namespace ridge::measure {

class StepFigures final : public train::Observer {
 public:
  using Listener = std::function<void(const record::StepMetrics&)>;
  // `plan` is a record of the run that has its counts. MFU is a share of `peak`, or unknown if
  // that is 0. The warm-up steps count for the optimizer. The listener is called after each
  // measured step.
  StepFigures(record::RunRecord plan,
              const cost::ReferenceRate& peak,
              const train::OptimizerOptions& optimizer,
              int64_t warmup_steps,
              Listener listener);

  void after_step(const train::StepEvent& event) override;
  // The mean over the steps; see StepMetrics.
  double attended() const;

 private:
  record::RunRecord plan_;
  cost::ReferenceRate peak_;
  train::OptimizerOptions optimizer_;
  int64_t warmup_steps_;
  Listener listener_;
  int64_t steps_ = 0, overflows_ = 0;
  double attended_ = 0;  // the sum over the steps
};

}  // namespace ridge::measure
