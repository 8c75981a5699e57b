// SPDX-License-Identifier: Apache-2.0
// Holds the ceilings of a lab against its own runs, so that no verdict and no advice stands on a
// ceiling that the lab has disproved.
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

// If a run was faster than the ceilings allow, measures them again, raises what is too low all the
// same, predicts all runs anew and adds warnings that say so. The lab has ceilings.
void correct_ceilings(const CeilingCheck& check, record::LabRecord& lab);

}  // namespace ridge::bench
