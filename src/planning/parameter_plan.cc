// SPDX-License-Identifier: Apache-2.0
// Plans in closed form from a number of parameters.
#include "planning/plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "cost/resource_plan.h"
#include "planning/layout.h"

namespace ridge::planning {
namespace {

constexpr double kFlopsPerParameter = 6;  // 2 forward, 4 backward
constexpr double kMostParameters = 1e15;

void add_changes(record::ParameterPlan& plan) {
  const int64_t devices = plan.layout.devices;
  auto need = [&](cost::Zero stage, int64_t count, const cost::StateTypes& types) {
    return cost::state_bytes(plan.parameters, types, stage, count).total();
  };
  auto suggest = [&](const std::string& option, double bytes) {
    plan.would_fit.push_back(
        fmt::format("{} ({})", option, format_bytes(cost::whole_bytes(bytes))));
  };
  for (int stage = static_cast<int>(plan.zero) + 1; devices > 1 && stage < cost::kZeroStages;
       ++stage) {
    const double bytes = need(static_cast<cost::Zero>(stage), devices, plan.types);
    if (!plan.hardware.holds(bytes)) continue;
    suggest(fmt::format("--zero {}", stage), bytes);
    break;
  }
  if (plan.fewest_devices > devices)
    suggest(fmt::format("--devices {} --zero 3", plan.fewest_devices),
            need(cost::Zero::kWeights, plan.fewest_devices, plan.types));
  for (const auto& [option, moments] :
       {std::pair("--moment-dtype bf16", 4.0), std::pair("--moment-dtype i8", 2.0)}) {
    cost::StateTypes types = plan.types;
    types.moments = std::min(types.moments, moments);
    const double bytes = need(plan.zero, devices, types);
    if (!plan.hardware.holds(bytes)) continue;
    suggest(option, bytes);
    break;
  }
  const std::vector<std::string> larger =
      larger_hardware(plan.hardware.memory_bytes, plan.bytes.total());
  if (!larger.empty()) plan.would_fit.push_back("--hardware " + larger.front());
  plan.would_fit.push_back(fmt::format("a model of {} parameters",
                                       format_count(static_cast<double>(plan.largest_model))));
}

record::ParameterPlan plan_one(const ParameterPlanRequest& request,
                               const TargetHardware& hardware) {
  const bool is_bf16 = request.dtype == "bf16";
  const int64_t devices = request.layout.devices;
  record::ParameterPlan plan;
  plan.hardware = hardware;
  plan.layout = request.layout;
  plan.tokens = request.tokens;
  plan.assumed_mfu = request.mfu;
  plan.dtype = request.dtype;
  plan.flops_per_token = kFlopsPerParameter * request.parameters;
  plan.peak = hardware.ceilings.mfu_reference(is_bf16 ? DType::kBF16 : DType::kF32);
  plan.types = state_types(request.layout, is_bf16, false);
  plan.parameters = {request.parameters, request.parameters};
  const std::vector<cost::Zero> tried = stages(request.layout);
  plan.last_zero = tried.back();
  for (cost::Zero stage : tried) {
    plan.zero = stage;
    plan.bytes = cost::state_bytes(plan.parameters, plan.types, stage, devices);
    plan.fits = hardware.holds(plan.bytes.total());
    if (plan.fits) break;
  }
  plan.assumed_days =
      cost::training_days(plan.flops_per_token, request.tokens, static_cast<double>(devices),
                          1e9 * plan.peak.per_ns, request.mfu);
  plan.spent = expense(request.layout, hardware, plan.assumed_days);
  if (hardware.memory_bytes > 0) {
    plan.largest_model =
        cost::largest_model(hardware.memory_bytes, plan.types, plan.last_zero, devices);
    plan.fewest_devices = cost::fewest_devices(hardware.memory_bytes, 0, plan.parameters,
                                               plan.types, cost::Zero::kWeights);
  }
  if (!plan.fits) add_changes(plan);
  return plan;
}

}  // namespace

std::vector<record::ParameterPlan> plan_parameters(const ParameterPlanRequest& request,
                                                   const std::vector<TargetHardware>& all) {
  if (!(request.parameters >= 1 && request.parameters <= kMostParameters))
    throw usage_error("[parameters] expected 1 to {:g}, got {:g}", kMostParameters,
                      request.parameters);
  std::vector<record::ParameterPlan> plans;
  for (const TargetHardware& hardware : all) plans.push_back(plan_one(request, hardware));
  return plans;
}

}  // namespace ridge::planning
