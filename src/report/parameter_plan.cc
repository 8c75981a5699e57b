// SPDX-License-Identifier: Apache-2.0
// Plans of training from a number of parameters as text and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "base/units.h"
#include "record/plan_figures.h"
#include "report/plan_report.h"
#include "report/terminal.h"

namespace ridge::report {
namespace {

using cost::whole_bytes;

std::string heading(const record::ParameterPlan& plan) {
  return fmt::format("{} parameters, {} tokens, GEMMs in {}, on {}",
                     format_count(plan.parameters.all), format_count(plan.tokens), plan.dtype,
                     devices_text(plan.layout.devices));
}

std::string assumptions(const record::ParameterPlan& plan) {
  const cost::StateTypes& types = plan.types;
  return fmt::format(
      "Assumed: an MFU of {:.0f}% (--mfu), of the GEMM peak; 6 FLOPs per parameter and token, which "
      "leaves out the scores of attention; {:g} bytes per parameter: weights {:g}, master weights "
      "{:g}, gradients {:g}, moments of AdamW {:g}. Activations, gathered layers and the exchange "
      "between devices need a model (--preset, --config).\n",
      100 * plan.assumed_mfu, types.total(), types.weights, types.masters, types.gradients,
      types.moments);
}

Json plan_json(const record::ParameterPlan& plan) {
  const Json all = to_json(plan);
  Json json = to_json(plan,
                      "parameters tokens dtype flops_per_token flops devices zero hardware "
                      "hardware_source bytes_per_parameter");
  json["device_memory"] = {{"peak_bytes", whole_bytes(plan.bytes.total())},
                           {"classes",
                            {{"weights", whole_bytes(plan.bytes.weights)},
                             {"master weights", whole_bytes(plan.bytes.masters)},
                             {"gradients", whole_bytes(plan.bytes.gradients)},
                             {"moments", whole_bytes(plan.bytes.moments)}}}};
  add(json, all, "memory_capacity_bytes fits would_fit assumed_mfu");
  json["mfu_peak"] = to_json(plan.peak);
  add(json, all,
      "assumed_mfu_days device_hours watts energy_kwh price_per_device_hour cost "
      "largest_model_parameters fewest_devices");
  return json;
}

std::string one_text(const record::ParameterPlan& plan, const TerminalOptions& terminal) {
  const int64_t needs = whole_bytes(plan.bytes.total());
  std::string text =
      fmt::format("{} ({})\nsource: {}\n", heading(plan), terminal_safe(plan.hardware.title),
                  terminal_safe(plan.hardware.source, kLongestMessage));
  if (!plan.fits)
    text += fmt::format("DOES NOT FIT: {} a device with {}, which has {}\nwould fit: {}\n",
                        format_bytes(needs), zero_name(plan.zero),
                        format_bytes(plan.hardware.memory_bytes), fmt::join(plan.would_fit, ", "));
  Table table(fmt::format("<memory of each device, {} | bytes", zero_name(plan.zero)));
  for (const auto& [name, bytes] :
       {std::pair("weights", plan.bytes.weights), std::pair("master weights", plan.bytes.masters),
        std::pair("gradients", plan.bytes.gradients), std::pair("moments", plan.bytes.moments)})
    if (bytes > 0) table.add({name, format_bytes(whole_bytes(bytes))});
  table.add_rule();
  table.add({"all, without activations", format_bytes(needs)});
  table.add({"memory of the hardware", format_bytes(plan.hardware.memory_bytes)});
  std::string answers = fmt::format("{:.3g} FLOPs in all\n", plan.flops());
  if (plan.fits) {
    answers += fmt::format("{} at an MFU of {:.0f}% {}\n", days_text(plan.assumed_days),
                           100 * plan.assumed_mfu, plan.peak.str("FLOP/s", plan.dtype));
    if (const std::string spent = expense_text(plan); !spent.empty()) answers += spent + "\n";
  }
  if (plan.hardware.memory_bytes > 0) {
    answers += fmt::format("largest model that fits: {} parameters with {}\n",
                           format_count(static_cast<double>(plan.largest_model)),
                           zero_name(plan.last_zero));
    answers += fmt::format("fewest devices that hold it: {} with ZeRO 3\n",
                           plan.fewest_devices > 0 ? std::to_string(plan.fewest_devices) : "none");
  }
  return fmt::format("{}\n{}\n{}", wrap_lines(text, terminal.columns), table.text(terminal),
                     wrap_lines(answers + assumptions(plan), terminal.columns));
}

std::string several_text(std::span<const record::ParameterPlan> plans,
                         const TerminalOptions& terminal) {
  Table table(
      "<hardware | peak ?1 | ZeRO ?5 | needs | has | time | energy ?2 | cost ?3 | "
      "fewest devices ?4");
  std::string below;
  for (const record::ParameterPlan& plan : plans) {
    const DevicePlanCells cells =
        device_plan_cells(plan, whole_bytes(plan.bytes.total()), plan.assumed_days);
    table.add({terminal_safe(plan.hardware.name), format_rate(1e9 * plan.peak.per_ns, "FLOP/s"),
               cells.zero, cells.needs, cells.has, cells.time, cells.energy, cells.cost,
               plan.fewest_devices > 0 ? std::to_string(plan.fewest_devices) : "none"});
    below += changes_line(plan);
  }
  below += "fewest devices: those that hold it with ZeRO 3\n";
  return fmt::format(
      "{}\n{}\n{}", wrap_lines(heading(plans.front()) + " of each kind", terminal.columns),
      table.text(terminal), wrap_lines(below + assumptions(plans.front()), terminal.columns));
}

}  // namespace

std::string parameter_plan_text(std::span<const record::ParameterPlan> plans,
                                const TerminalOptions& terminal) {
  return plans.size() == 1 ? one_text(plans.front(), terminal) : several_text(plans, terminal);
}

std::string parameter_plan_json(std::span<const record::ParameterPlan> plans) {
  return plans_json(plans, plan_json);
}

std::string zero_name(cost::Zero stage) {
  return stage == cost::Zero::kNone ? "plain data parallel"
                                    : fmt::format("ZeRO {}", static_cast<int>(stage));
}

std::string devices_text(int64_t devices) {
  return fmt::format("{} {}", devices, devices == 1 ? "device" : "devices");
}

std::string days_text(double days) {
  constexpr double kHours = 24;
  if (days >= 1e7) return format_count(days) + " days";
  if (days >= 1000) return fmt::format("{:.0f} days", days);
  if (days >= 1) return fmt::format("{:.1f} days", days);
  return days * kHours >= 1 ? fmt::format("{:.1f} hours", days * kHours)
                            : fmt::format("{:.1f} minutes", days * kHours * 60);
}

std::string energy_text(double kilowatt_hours) { return format_rate(1000 * kilowatt_hours, "Wh"); }

std::string expense_text(const record::DevicePlan& plan) {
  const record::Expense& e = plan.spent;
  std::string text;
  if (e.kilowatt_hours > 0)
    text = fmt::format("energy: {} ({:.0f} W a device, {})", energy_text(e.kilowatt_hours), e.watts,
                       plan.layout.watts > 0 ? "--watts" : "board power of the data sheet");
  if (plan.layout.price > 0)
    text += fmt::format("{}cost: {} ({} device-hours at {:g})", text.empty() ? "" : "; ",
                        format_count(e.price), format_count(e.device_hours), plan.layout.price);
  return text;
}

std::string assumptions_text(const record::PlannedHardware& hardware, bool verbose) {
  std::string text;
  if (verbose || !hardware.ceilings.is_measured())
    for (const std::string& note : hardware.ceilings.notes)
      text += terminal_safe(note, kLongestMessage) + "\n";
  return text;
}

DevicePlanCells device_plan_cells(const record::DevicePlan& plan, int64_t needs, double days) {
  auto known = [&](bool is_known, const std::string& text) {
    return plan.fits && is_known ? text : std::string("-");
  };
  return {plan.layout.devices > 1 ? std::to_string(static_cast<int>(plan.zero)) : "-",
          format_bytes(needs),
          format_bytes(plan.hardware.memory_bytes),
          plan.fits ? days_text(days) : "does not fit",
          known(plan.spent.kilowatt_hours > 0, energy_text(plan.spent.kilowatt_hours)),
          known(plan.layout.price > 0, format_count(plan.spent.price))};
}

std::string changes_line(const record::DevicePlan& plan) {
  if (plan.fits) return "";
  return fmt::format("{} would fit: {}\n", terminal_safe(plan.hardware.name),
                     fmt::join(plan.would_fit, ", "));
}

}  // namespace ridge::report
