// SPDX-License-Identifier: Apache-2.0
// Plans in closed form from a number of parameters. Not a subcommand.
#include "apps/plan_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "cost/resource_plan.h"
#include "report/json_text.h"

namespace ridge::apps {
namespace {

using nlohmann::ordered_json;

constexpr double kFlopsPerParameter = 6;  // 2 forward, 4 backward
constexpr double kMostBytes = 9e18;

struct ParameterPlan {
  cost::ReferenceRate peak;
  cost::Zero zero = cost::Zero::kNone;
  cost::StateBytes bytes;
  bool fits = true;
  double days = 0;
  Expense spent;
  int64_t largest_model = 0;
  int64_t fewest_devices = 0;  // with the last stage that was tried
  std::vector<std::string> would_fit;
};

int64_t whole(double bytes) { return static_cast<int64_t>(std::min(bytes + 0.5, kMostBytes)); }

class ParameterPlanner {
 public:
  ParameterPlanner(const ParameterPlanRequest& request, const TerminalOptions& terminal)
      : request_(request),
        terminal_(terminal),
        types_(state_types(request.layout, request.dtype == DType::kBF16, false)),
        parameters_{request.parameters, request.parameters} {}

  ParameterPlan plan(const Place& place) const;
  ordered_json json(const Place& place, const ParameterPlan& plan) const;
  void print_one(const Place& place, const ParameterPlan& plan) const;
  void print_several(const std::vector<Place>& places,
                     const std::vector<ParameterPlan>& plans) const;

 private:
  int64_t devices() const { return request_.layout.devices; }
  std::string dtype_name() const {
    return request_.is_tf32 ? "tf32" : request_.dtype == DType::kBF16 ? "bf16" : "fp32";
  }
  double flops() const { return kFlopsPerParameter * request_.parameters * request_.tokens; }
  bool fits(double bytes, const Place& place) const {
    return place.memory_bytes <= 0 || bytes <= static_cast<double>(place.memory_bytes);
  }
  std::string heading() const;
  std::string source_lines() const;
  void add_changes(const Place& place, ParameterPlan& plan) const;

  const ParameterPlanRequest& request_;
  const TerminalOptions& terminal_;
  cost::StateTypes types_;
  cost::StateParameters parameters_;
};

ParameterPlan ParameterPlanner::plan(const Place& place) const {
  ParameterPlan plan;
  plan.peak = place.ceilings.mfu_reference(request_.dtype);
  const std::vector<cost::Zero> tried = stages(request_.layout);
  for (cost::Zero stage : tried) {
    plan.zero = stage;
    plan.bytes = cost::state_bytes(parameters_, types_, stage, devices());
    plan.fits = fits(plan.bytes.total(), place);
    if (plan.fits) break;
  }
  plan.days =
      cost::training_days(kFlopsPerParameter * request_.parameters, request_.tokens,
                          static_cast<double>(devices()), 1e9 * plan.peak.per_ns, request_.mfu);
  plan.spent = expense(request_.layout, place, plan.days);
  if (place.memory_bytes > 0) {
    plan.largest_model = cost::largest_model(place.memory_bytes, types_, tried.back(), devices());
    plan.fewest_devices =
        cost::fewest_devices(place.memory_bytes, 0, parameters_, types_, cost::Zero::kWeights);
  }
  if (!plan.fits) add_changes(place, plan);
  return plan;
}

void ParameterPlanner::add_changes(const Place& place, ParameterPlan& plan) const {
  auto suggest = [&](const std::string& option, double need) {
    plan.would_fit.push_back(fmt::format("{} ({})", option, format_bytes(whole(need))));
  };
  for (int stage = static_cast<int>(plan.zero) + 1; devices() > 1 && stage < cost::kZeroStages;
       ++stage) {
    const double need =
        cost::state_bytes(parameters_, types_, static_cast<cost::Zero>(stage), devices()).total();
    if (!fits(need, place)) continue;
    suggest(fmt::format("--zero {}", stage), need);
    break;
  }
  if (plan.fewest_devices > devices())
    suggest(
        fmt::format("--devices {} --zero 3", plan.fewest_devices),
        cost::state_bytes(parameters_, types_, cost::Zero::kWeights, plan.fewest_devices).total());
  for (const auto& [option, bytes] :
       {std::pair("--moment-dtype bf16", 4.0), std::pair("--moment-dtype i8", 2.0)}) {
    cost::StateTypes types = types_;
    types.moments = std::min(types.moments, bytes);
    const double need = cost::state_bytes(parameters_, types, plan.zero, devices()).total();
    if (!fits(need, place)) continue;
    suggest(option, need);
    break;
  }
  const std::vector<std::string> larger = larger_hardware(place.memory_bytes, plan.bytes.total());
  if (!larger.empty()) plan.would_fit.push_back("--hardware " + larger.front());
  plan.would_fit.push_back(fmt::format("a model of {} parameters",
                                       format_count(static_cast<double>(plan.largest_model))));
}

std::string ParameterPlanner::heading() const {
  return fmt::format("{} parameters, {} tokens, GEMMs in {}, on {} {}",
                     format_count(request_.parameters), format_count(request_.tokens), dtype_name(),
                     devices(), devices() == 1 ? "device" : "devices");
}

std::string ParameterPlanner::source_lines() const {
  return fmt::format(
      "Assumed: an MFU of {:.0f}% (--mfu), of the GEMM peak; 6 FLOPs per parameter and token, which "
      "leaves out the scores of attention; {:g} bytes per parameter: weights {:g}, master weights "
      "{:g}, gradients {:g}, moments of AdamW {:g}. Activations, gathered layers and the exchange "
      "between devices need a model (--preset, --config).\n",
      100 * request_.mfu, types_.total(), types_.weights, types_.masters, types_.gradients,
      types_.moments);
}

ordered_json ParameterPlanner::json(const Place& place, const ParameterPlan& plan) const {
  auto if_fits = [&](double value) { return plan.fits ? ordered_json(value) : ordered_json(); };
  return {{"parameters", request_.parameters},
          {"tokens", request_.tokens},
          {"dtype", dtype_name()},
          {"flops_per_token", kFlopsPerParameter * request_.parameters},
          {"flops", flops()},
          {"devices", devices()},
          {"zero", static_cast<int>(plan.zero)},
          {"hardware", place.title},
          {"hardware_source", place.source},
          {"bytes_per_parameter", types_.total()},
          {"device_memory",
           {{"peak_bytes", whole(plan.bytes.total())},
            {"classes",
             {{"weights", whole(plan.bytes.weights)},
              {"master weights", whole(plan.bytes.masters)},
              {"gradients", whole(plan.bytes.gradients)},
              {"moments", whole(plan.bytes.moments)}}}}},
          {"memory_capacity_bytes", place.memory_bytes},
          {"fits", plan.fits},
          {"would_fit", plan.would_fit},
          {"assumed_mfu", request_.mfu},
          {"mfu_peak", report::to_json(plan.peak)},
          {"assumed_mfu_days", if_fits(plan.days)},
          {"device_hours", if_fits(plan.spent.device_hours)},
          {"watts", plan.spent.watts},
          {"energy_kwh", if_fits(plan.spent.kilowatt_hours)},
          {"price_per_device_hour", request_.layout.price},
          {"cost", if_fits(plan.spent.price)},
          {"largest_model_parameters", plan.largest_model},
          {"fewest_devices", plan.fewest_devices}};
}

void ParameterPlanner::print_one(const Place& place, const ParameterPlan& plan) const {
  std::string text = fmt::format("{} ({})\nsource: {}\n", heading(), terminal_safe(place.title),
                                 terminal_safe(place.source, kLongestMessage));
  if (!plan.fits)
    text += fmt::format("DOES NOT FIT: {} a device with {}, which has {}\nwould fit: {}\n",
                        format_bytes(whole(plan.bytes.total())), zero_name(plan.zero),
                        format_bytes(place.memory_bytes), fmt::join(plan.would_fit, ", "));
  fmt::print("{}\n", wrap_lines(text, terminal_.columns));
  Table table({{"memory of each device, " + zero_name(plan.zero), Align::kLeft}, {"bytes"}});
  for (const auto& [name, bytes] :
       {std::pair("weights", plan.bytes.weights), std::pair("master weights", plan.bytes.masters),
        std::pair("gradients", plan.bytes.gradients), std::pair("moments", plan.bytes.moments)})
    if (bytes > 0) table.add({name, format_bytes(whole(bytes))});
  table.add_rule();
  table.add({"all, without activations", format_bytes(whole(plan.bytes.total()))});
  table.add({"memory of the hardware", format_bytes(place.memory_bytes)});
  fmt::print("{}\n", table.text(terminal_));
  text = fmt::format("{:.3g} FLOPs in all\n", flops());
  if (plan.fits) {
    text += fmt::format("{} at an MFU of {:.0f}% {}\n", days_text(plan.days), 100 * request_.mfu,
                        plan.peak.str("FLOP/s", dtype_name()));
    if (const std::string spent = expense_text(request_.layout, plan.spent); !spent.empty())
      text += spent + "\n";
  }
  if (place.memory_bytes > 0) {
    text += fmt::format("largest model that fits: {} parameters with {}\n",
                        format_count(static_cast<double>(plan.largest_model)),
                        zero_name(stages(request_.layout).back()));
    text += fmt::format("fewest devices that hold it: {} with ZeRO 3\n",
                        plan.fewest_devices > 0 ? std::to_string(plan.fewest_devices) : "none");
  }
  fmt::print("{}", wrap_lines(text + source_lines(), terminal_.columns));
}

void ParameterPlanner::print_several(const std::vector<Place>& places,
                                     const std::vector<ParameterPlan>& plans) const {
  fmt::print("{}\n", wrap_lines(heading() + " of each kind", terminal_.columns));
  Table table({{"hardware", Align::kLeft},
               {"peak", Align::kRight, 1},
               {"ZeRO", Align::kRight, 5},
               {"needs"},
               {"has"},
               {"time"},
               {"energy", Align::kRight, 2},
               {"cost", Align::kRight, 3},
               {"fewest devices", Align::kRight, 4}});
  std::string below;
  for (size_t i = 0; i < plans.size(); ++i) {
    const ParameterPlan& plan = plans[i];
    auto if_fits = [&](const std::string& text) { return plan.fits ? text : std::string("-"); };
    table.add(
        {terminal_safe(places[i].name), format_rate(1e9 * plan.peak.per_ns, "FLOP/s"),
         devices() > 1 ? std::to_string(static_cast<int>(plan.zero)) : "-",
         format_bytes(whole(plan.bytes.total())), format_bytes(places[i].memory_bytes),
         plan.fits ? days_text(plan.days) : "does not fit",
         if_fits(plan.spent.kilowatt_hours > 0 ? energy_text(plan.spent.kilowatt_hours) : "-"),
         if_fits(request_.layout.price > 0 ? format_count(plan.spent.price) : "-"),
         plan.fewest_devices > 0 ? std::to_string(plan.fewest_devices) : "none"});
    if (!plan.fits)
      below += fmt::format("{} would fit: {}\n", terminal_safe(places[i].name),
                           fmt::join(plan.would_fit, ", "));
  }
  fmt::print("{}\n", table.text(terminal_));
  below += "fewest devices: those that hold it with ZeRO 3\n";
  fmt::print("{}", wrap_lines(below + source_lines(), terminal_.columns));
}

}  // namespace

void plan_parameters(const ParameterPlanRequest& request,
                     const std::vector<Place>& places,
                     const TerminalOptions& terminal) {
  if (!(request.parameters >= 1 && request.parameters <= kMostPlannedParameters))
    throw usage_error("[parameters] expected 1 to {:g}, got {:g}", kMostPlannedParameters,
                      request.parameters);
  const ParameterPlanner planner(request, terminal);
  std::vector<ParameterPlan> plans;
  for (const Place& place : places) plans.push_back(planner.plan(place));
  if (request.json) {
    ordered_json json;
    for (size_t i = 0; i < plans.size(); ++i)
      json["plans"].push_back(planner.json(places[i], plans[i]));
    fmt::print("{}", report::json_text(plans.size() == 1 ? json["plans"][0] : json));
  } else if (plans.size() == 1) {
    planner.print_one(places.front(), plans.front());
  } else {
    planner.print_several(places, plans);
  }
}

}  // namespace ridge::apps
