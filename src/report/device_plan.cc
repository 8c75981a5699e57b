// SPDX-License-Identifier: Apache-2.0
// Words devices, days and expenses of training plans.
#include "report/device_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/units.h"
#include "report/terminal.h"

namespace ridge::report {

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
