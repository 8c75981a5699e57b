// SPDX-License-Identifier: Apache-2.0
// Plans of training and inference as text for a terminal and as JSON. A single training plan is
// shown whole, several as a table with a row for each hardware.
#pragma once

#include <span>
#include <string>

#include "record/plan_record.h"
#include "report/terminal.h"

namespace ridge::report {

std::string training_plan_text(std::span<const record::TrainingPlan> plans,
                               bool verbose,
                               const TerminalOptions& terminal);
std::string training_plan_json(std::span<const record::TrainingPlan> plans);

std::string parameter_plan_text(std::span<const record::ParameterPlan> plans,
                                const TerminalOptions& terminal);
std::string parameter_plan_json(std::span<const record::ParameterPlan> plans);

std::string inference_plan_text(const record::InferencePlan& plan,
                                bool verbose,
                                const TerminalOptions& terminal);
std::string inference_plan_json(const record::InferencePlan& plan);

}  // namespace ridge::report
