// SPDX-License-Identifier: Apache-2.0
// How a training plan is spread over devices, in which types it keeps its state, and what it costs:
// options that plans of a model and of a number of parameters share. Not a subcommand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/plan_place.h"
#include "cost/data_parallel_plan.h"

namespace ridge::apps {

// --devices, --zero, --weight-dtype, --gradient-dtype, --moment-dtype, --link, --network,
// --node-devices, --price, --watts
struct LayoutOptions {
  int64_t devices = 1;
  std::string zero = "auto";
  std::string weight_dtype, gradient_dtype, moment_dtype;  // empty: as Ridge trains
  double link = 0;                                         // GB/s; 0: the data sheet's
  double network = 50;                                     // GB/s
  int64_t node_devices = 8;
  double price = 0;  // of a device for an hour; 0: not given
  double watts = 0;  // 0: the data sheet's
};
void add_layout_options(Command app, LayoutOptions& options);
// Throws usage Errors for numbers that cannot be, and for names that are not known.
void expect_sane(const LayoutOptions& options);

// Whether the plan is that of one device as Ridge trains on it.
bool is_plain(const LayoutOptions& options);
// Bytes of a parameter. Gradients have the type of GEMMs, but fp32 where they are summed over
// micro-batches.
cost::StateTypes state_types(const LayoutOptions& options, bool bf16_gemms, bool accumulates);
// The stages to try, lowest first: the chosen one, or all.
std::vector<cost::Zero> stages(const LayoutOptions& options);
std::string zero_name(cost::Zero stage);  // "plain data parallel", "ZeRO 1"

cost::Links links(const LayoutOptions& options, const Place& place);
// "links of 450 GB/s (NVLink 4, data sheet)": the slowest of the ring, and where its rate is from.
std::string link_text(const LayoutOptions& options, const Place& place);

// What `days` on all devices take.
struct Expense {
  double device_hours = 0;
  double watts = 0;           // of a device; 0: unknown
  double kilowatt_hours = 0;  // 0: unknown
  double price = 0;           // 0: unknown
};
Expense expense(const LayoutOptions& options, const Place& place, double days);
std::string days_text(double days);              // "2.3 days", "1.5 hours"
std::string energy_text(double kilowatt_hours);  // "1.2 GWh"
// "energy: 12.1 GWh (boards at 700 W, data sheet); cost: 8.8 M (3.5 M device-hours at 2.5)"; empty
// if neither is known.
std::string expense_text(const LayoutOptions& options, const Expense& expense);

// The sheets that hold `bytes` and have more memory than `capacity_bytes`, smallest first.
std::vector<std::string> larger_hardware(int64_t capacity_bytes, double bytes);

}  // namespace ridge::apps
