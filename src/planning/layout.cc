// SPDX-License-Identifier: Apache-2.0
// Checks a layout and derives what its devices hold and send.
#include "planning/layout.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "cost/hardware.h"

namespace ridge::planning {
namespace {

constexpr int64_t kMostDevices = 10'000'000;
constexpr double kLeastRate = 1e-6;  // GB/s; a modem has more
constexpr double kMostRate = 1e6;
constexpr double kMostPrice = 1e6;  // for a device-hour
constexpr double kMostWatts = 1e6;

void expect_between(const char* option, double value, double least, double most) {
  if (!(value >= least && value <= most))
    throw usage_error("[{}] expected a number from {:g} to {:g}, got {:g}", option, least, most,
                      value);
}

// Bytes of a number of the named type; 0 for the empty name.
double bytes_of(const char* option, const std::string& name, bool may_be_i8 = false) {
  if (name.empty()) return 0;
  if (name == "fp32" || name == "f32") return 4;
  if (name == "bf16" || name == "fp16" || name == "f16") return 2;
  if (may_be_i8 && name == "i8") return 1;
  throw usage_error("[{}] expected fp32, bf16{} fp16{}, got {}", option, may_be_i8 ? "," : " or",
                    may_be_i8 ? " or i8" : "", printable(name));
}

double or_else(double value, double otherwise) { return value > 0 ? value : otherwise; }

}  // namespace

void expect_sane(const record::PlanLayout& o) {
  for (const auto& [option, value] :
       {std::pair("devices", o.devices), std::pair("node-devices", o.node_devices)})
    if (value < 1 || value > kMostDevices)
      throw usage_error("[{}] expected 1 to {}, got {}", option, kMostDevices, value);
  expect_between("network", o.network, kLeastRate, kMostRate);
  if (o.link != 0) expect_between("link", o.link, kLeastRate, kMostRate);
  expect_between("price", o.price, 0, kMostPrice);
  expect_between("watts", o.watts, 0, kMostWatts);
  state_types(o, false, false);
  stages(o);
}

cost::StateTypes state_types(const record::PlanLayout& o, bool bf16_gemms, bool accumulates) {
  cost::StateTypes types;
  const double stored = or_else(bytes_of("weight-dtype", o.weight_dtype), 4);
  types.weights = bf16_gemms ? 2 : stored;
  types.masters = bf16_gemms && stored == 4 ? 4 : 0;
  types.gradients =
      or_else(bytes_of("gradient-dtype", o.gradient_dtype), bf16_gemms && !accumulates ? 2 : 4);
  types.moments = 2 * or_else(bytes_of("moment-dtype", o.moment_dtype, true), 4);
  return types;
}

std::vector<cost::Zero> stages(const record::PlanLayout& o) {
  using enum cost::Zero;
  const std::vector<cost::Zero> all = {kNone, kOptimizer, kGradients, kWeights};
  if (o.zero == "auto") return o.devices == 1 ? std::vector{kNone} : all;
  if (o.zero.size() == 1 && o.zero[0] >= '0' && o.zero[0] <= '3')
    return {all[static_cast<size_t>(o.zero[0] - '0')]};
  throw usage_error("[zero] expected auto, 0, 1, 2 or 3, got {}", printable(o.zero));
}

record::Expense expense(const record::PlanLayout& o,
                        const record::PlannedHardware& place,
                        double days) {
  constexpr double kHours = 24;
  record::Expense expense;
  expense.device_hours = days * kHours * static_cast<double>(o.devices);
  expense.watts = o.watts > 0 ? o.watts : place.board_watts;
  expense.kilowatt_hours = expense.device_hours * expense.watts / 1000;
  expense.price = expense.device_hours * o.price;
  return expense;
}

std::vector<std::string> larger_hardware(int64_t capacity_bytes, double bytes) {
  std::vector<const cost::Hardware*> larger;
  for (const cost::Hardware& each : cost::hardware_table())
    if (each.memory_bytes > capacity_bytes && static_cast<double>(each.memory_bytes) >= bytes)
      larger.push_back(&each);
  std::stable_sort(larger.begin(), larger.end(),
                   [](const auto* a, const auto* b) { return a->memory_bytes < b->memory_bytes; });
  std::vector<std::string> names;
  for (const cost::Hardware* each : larger) names.push_back(each->name);
  return names;
}

}  // namespace ridge::planning
