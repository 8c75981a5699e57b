// SPDX-License-Identifier: Apache-2.0
// Holds ceilings against the runs that were compared with them, so that no verdict and no advice
// stands on a ceiling that a run has disproved.
#pragma once

#include <functional>
#include <memory>

#include "backends/backend.h"
#include "measure/training_run.h"
#include "record/lab_record.h"

namespace ridge::bench {

struct CeilingCheck {
  std::function<cost::Ceilings()> measure;  // measures the ceilings again
  std::function<measure::TrainingExperiment(const record::RunRecord&)> experiment;
  std::function<std::unique_ptr<backends::Backend>(const measure::TrainingExperiment&)>
      make_backend;
};

// Raises the ceilings that a run of the lab was faster than to what it reached, and adds a warning
// for each. Predictions stay as they were. Returns whether there were any.
bool raise_ceilings(record::LabRecord& lab);

// If a run was faster than the ceilings allow, measures them again, raises what is too low all the
// same, predicts all runs anew and adds warnings that say so. Returns whether there was such a run.
// The lab has ceilings.
bool correct_ceilings(const CeilingCheck& check, record::LabRecord& lab);

}  // namespace ridge::bench
