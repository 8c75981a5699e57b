// SPDX-License-Identifier: Apache-2.0
// Reads the layout's options and words its results. Not a subcommand.
#include "apps/plan_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "cost/hardware.h"
#include "report/terminal.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostDevices = 10'000'000;
constexpr double kGiga = 1e9;
constexpr double kLeastRate = 1e-6;  // GB/s; a modem has more
constexpr double kMostRate = 1e6;
constexpr double kMostPrice = 1e6;  // of a device-hour
constexpr double kMostWatts = 1e6;

void expect_range(const char* option, double value, double most) {
  if (!(value >= 0 && value <= most))
    throw usage_error("[{}] expected a number from 0 to {:g}, got {:g}", option, most, value);
}

void expect_rate(const char* option, double value) {
  if (!(value >= kLeastRate && value <= kMostRate))
    throw usage_error("[{}] expected a number from {:g} to {:g}, got {:g}", option, kLeastRate,
                      kMostRate, value);
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

void add_layout_options(Command app, LayoutOptions& o) {
  app = app.under("Devices");
  app.add_option("--devices", o.devices,
                 "number of devices of a data-parallel run; each has a batch of its own")
      .show_default();
  app.add_option("--zero", o.zero,
                 "what devices share out instead of copying: 0 nothing (plain data parallel), 1 "
                 "moments and master weights, 2 gradients too, 3 weights too; auto: the lowest "
                 "that fits")
      .show_default();
  app.add_option("--weight-dtype", o.weight_dtype,
                 "type of the weights that the optimizer updates: fp32, or bf16 or fp16 without "
                 "fp32 masters (default: fp32, beside bf16 copies with --dtype bf16)");
  app.add_option("--gradient-dtype", o.gradient_dtype,
                 "fp32, bf16 or fp16 (default: that of GEMMs; fp32 if micro-batches are summed)");
  app.add_option("--moment-dtype", o.moment_dtype,
                 "of both moments: fp32, bf16, fp16 or i8, scales not counted (default: fp32)");
  app.add_option("--link", o.link,
                 "GB/s of a device in one direction to the others of its node (default: the data "
                 "sheet's)");
  app.add_option("--network", o.network,
                 "GB/s of a device in one direction to other nodes; 50 is a port of 400 Gbit/s")
      .show_default();
  app.add_option("--node-devices", o.node_devices, "devices of a node").show_default();
  app.add_option("--price", o.price, "price of a device for an hour, in any currency");
  app.add_option("--watts", o.watts, "power of a device (default: the data sheet's board power)");
}

void expect_sane(const LayoutOptions& o) {
  for (const auto& [option, value] :
       {std::pair("devices", o.devices), std::pair("node-devices", o.node_devices)})
    if (value < 1 || value > kMostDevices)
      throw usage_error("[{}] expected 1 to {}, got {}", option, kMostDevices, value);
  expect_rate("network", o.network);
  if (o.link != 0) expect_rate("link", o.link);
  expect_range("price", o.price, kMostPrice);
  expect_range("watts", o.watts, kMostWatts);
  state_types(o, false, false);
  stages(o);
}

bool is_plain(const LayoutOptions& o) {
  return o.devices == 1 && o.weight_dtype.empty() && o.gradient_dtype.empty() &&
         o.moment_dtype.empty();
}

cost::StateTypes state_types(const LayoutOptions& o, bool bf16_gemms, bool accumulates) {
  cost::StateTypes types;
  const double stored = or_else(bytes_of("weight-dtype", o.weight_dtype), 4);
  types.weights = bf16_gemms ? 2 : stored;
  types.masters = bf16_gemms && stored == 4 ? 4 : 0;
  types.gradients =
      or_else(bytes_of("gradient-dtype", o.gradient_dtype), bf16_gemms && !accumulates ? 2 : 4);
  types.moments = 2 * or_else(bytes_of("moment-dtype", o.moment_dtype, true), 4);
  return types;
}

std::vector<cost::Zero> stages(const LayoutOptions& o) {
  using enum cost::Zero;
  const std::vector<cost::Zero> all = {kNone, kOptimizer, kGradients, kWeights};
  if (o.zero == "auto") return o.devices == 1 ? std::vector{kNone} : all;
  if (o.zero.size() == 1 && o.zero[0] >= '0' && o.zero[0] <= '3')
    return {all[static_cast<size_t>(o.zero[0] - '0')]};
  throw usage_error("[zero] expected auto, 0, 1, 2 or 3, got {}", printable(o.zero));
}

std::string zero_name(cost::Zero stage) {
  return stage == cost::Zero::kNone ? "plain data parallel"
                                    : fmt::format("ZeRO {}", static_cast<int>(stage));
}

cost::Links links(const LayoutOptions& o, const Place& place) {
  cost::Links links;
  links.node_bytes_per_s = o.link > 0 ? o.link * kGiga : place.link_bytes_per_s;
  links.node_devices = o.node_devices;
  links.network_bytes_per_s = o.network * kGiga;
  return links;
}

std::string link_text(const LayoutOptions& o, const Place& place) {
  cost::Links ring = links(o, place);
  ring.efficiency = 1;
  const double rate = ring.ring_bytes_per_s(o.devices);
  const bool is_node = ring.node_bytes_per_s > 0 && rate == ring.node_bytes_per_s;
  const std::string origin = !is_node     ? "--network"
                             : o.link > 0 ? "--link"
                                          : terminal_safe(place.link) + ", data sheet";
  return fmt::format("{} ({})", format_rate(rate, "B/s"), origin);
}

Expense expense(const LayoutOptions& o, const Place& place, double days) {
  constexpr double kHours = 24;
  Expense expense;
  expense.device_hours = days * kHours * static_cast<double>(o.devices);
  expense.watts = o.watts > 0 ? o.watts : place.board_watts;
  expense.kilowatt_hours = expense.device_hours * expense.watts / 1000;
  expense.price = expense.device_hours * o.price;
  return expense;
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

std::string expense_text(const LayoutOptions& o, const Expense& e) {
  std::string text;
  if (e.kilowatt_hours > 0)
    text = fmt::format("energy: {} ({:.0f} W a device, {})", energy_text(e.kilowatt_hours), e.watts,
                       o.watts > 0 ? "--watts" : "board power of the data sheet");
  if (o.price > 0)
    text += fmt::format("{}cost: {} ({} device-hours at {:g})", text.empty() ? "" : "; ",
                        format_count(e.price), format_count(e.device_hours), o.price);
  return text;
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

}  // namespace ridge::apps
