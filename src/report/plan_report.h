// SPDX-License-Identifier: Apache-2.0
// Plans of training and inference as text for a terminal and as JSON. A single training plan is
// shown whole, several as a table with a row for each hardware.
#pragma once

#include <span>
#include <string>

#include "record/plan_record.h"
#include "report/json_text.h"
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

std::string zero_name(cost::Zero stage);         // "plain data parallel", "ZeRO 1"
std::string devices_text(int64_t devices);       // "1 device", "8 devices"
std::string days_text(double days);              // "2.3 days", "1.5 hours"
std::string energy_text(double kilowatt_hours);  // "1.2 GWh"
// "energy: 12.1 GWh (boards at 700 W, data sheet); cost: 8.8 M (3.5 M device-hours at 2.5)"; empty
// if neither is known.
std::string expense_text(const record::DevicePlan& plan);

// The assumptions behind the times, a line each: of a data sheet always, of measured rates only if
// `verbose`.
std::string assumptions_text(const record::PlannedHardware& hardware, bool verbose);

// The cells of ZeRO, time, energy and cost in a table of several plans; `needs` is what a device
// holds.
struct DevicePlanCells {
  std::string zero, needs, has, time, energy, cost;
};
DevicePlanCells device_plan_cells(const record::DevicePlan& plan, int64_t needs, double days);
// "h100 would fit: --zero 3 (70 GB)"; empty for a plan that fits.
std::string changes_line(const record::DevicePlan& plan);

// One document for one plan, or {"plans": [...]}.
template <class Plan, class Form>
std::string plans_json(std::span<const Plan> plans, const Form& form) {
  if (plans.size() == 1) return json_text(form(plans[0]));
  Json json;
  for (const Plan& plan : plans) json["plans"].push_back(form(plan));
  return json_text(json);
}

}  // namespace ridge::report
