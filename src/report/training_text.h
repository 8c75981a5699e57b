// SPDX-License-Identifier: Apache-2.0
// The lines that a training prints on its way, and its summary.
#pragma once

#include <string>

#include "record/numerics_record.h"
#include "record/run_record.h"
#include "record/training_record.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

// The lines have no newline at their end. `shows_optimizer`: whether the line of a step has the
// norm of the gradients, the learning rate and tokens, instead of samples.
std::string step_line(const record::StepMetrics& step, bool shows_optimizer);
std::string validation_line(const record::ValidationMetrics& validation);
// A text on one line.
std::string sample_line(const record::TrainingSample& sample);

// Ends in a newline.
std::string training_summary(const record::RunRecord& run,
                             const record::TrainingTotals& totals,
                             const TerminalOptions& options);

// Ends in a newline.
std::string numerics_text(const record::NumericsRecord& record, const TerminalOptions& options);
Json to_json(const record::NumericsRecord& record);

}  // namespace ridge::report
