// SPDX-License-Identifier: Apache-2.0
// Finds the hardware of a plan by its name.
#include "planning/target_hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "backends/null/null_backend.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"
#include "cost/hardware.h"
#include "files/mapped_file.h"

namespace ridge::planning {
namespace {

constexpr size_t kLargestFile = 4 << 20;

TargetHardware this_hardware(const ThisMachine& machine) {
  TargetHardware made;
  made.planned = machine.target();
  made.ceilings = machine.ceilings();
  made.title = made.ceilings.machine.str();
  made.memory_bytes = made.ceilings.machine.memory_bytes;
  made.target = made.planned->name();
  made.source = "measured " + made.ceilings.measured_at;
  return made;
}

// A GPU of which only rates are known.
void plan_as_gpu(TargetHardware& hardware) {
  hardware.planned = backends::null::make_null_target();
  hardware.replaying = backends::null::make_null_target({.replays = true});
  hardware.target = "null";
}

TargetHardware data_sheet_hardware(const cost::Hardware& hardware, bool tf32) {
  TargetHardware made;
  made.title = hardware.title;
  made.ceilings = cost::ceilings_of(hardware, tf32);
  plan_as_gpu(made);
  made.memory_bytes = hardware.memory_bytes;
  made.source = hardware.source;
  made.link_bytes_per_s = hardware.interconnect_giga_bytes * 1e9 / 2;  // sheets add both directions
  made.link = hardware.interconnect;
  made.board_watts = hardware.board_watts;
  return made;
}

bool is_gpu_record(const cost::Ceilings& ceilings) {
  return ceilings.machine.isa.starts_with("sm_");
}

// Ceilings that `ridge machine --json` printed, on this or another machine. A GPU is planned as a
// data sheet is, a CPU with this machine's kernels.
TargetHardware measured_hardware(cost::Ceilings ceilings,
                                 const std::string& path,
                                 const ThisMachine& machine,
                                 bool tf32) {
  const bool is_gpu = is_gpu_record(ceilings);
  const bool is_tf32 = ceilings.machine.isa.find("TF32") != std::string::npos;
  if (tf32 != is_tf32)
    throw usage_error("[hardware] expected ceilings {} TF32 for this --dtype, got {}",
                      tf32 ? "with" : "without", printable(path));
  TargetHardware made;
  constexpr double kTrips = 5;  // the target of a GPU elsewhere counts a kernel's trips beyond
  if (is_gpu)
    plan_as_gpu(made), ceilings.launch_ns += kTrips * ceilings.round_ns;
  else
    made.planned = machine.cpu_target(), made.target = "cpu";
  made.title = ceilings.machine.str();
  made.memory_bytes = ceilings.machine.memory_bytes;
  made.source = fmt::format("{}, measured {}", path, ceilings.measured_at);
  made.ceilings = std::move(ceilings);
  return made;
}

bool is_file(const std::string& name) {
  std::error_code error;
  return name != "this" && cost::find_hardware(name) == nullptr &&
         std::filesystem::exists(name, error);
}

// Empty if the file is a data sheet.
std::optional<cost::Ceilings> ceilings_in(const std::string& path) {
  const std::string text = files::read_small_file(path, kLargestFile);
  if (!cost::is_ceilings_json(text, path)) return std::nullopt;
  return cost::ceilings_from_json(text, path);
}

TargetHardware file_hardware(const std::string& path, const ThisMachine& machine, bool tf32) {
  if (std::optional<cost::Ceilings> ceilings = ceilings_in(path))
    return measured_hardware(std::move(*ceilings), path, machine, tf32);
  return data_sheet_hardware(
      cost::hardware_from_json(files::read_small_file(path, kLargestFile), path), tf32);
}

}  // namespace

bool is_gpu_plan(const std::string& name, bool this_is_gpu) {
  if (name == "this") return this_is_gpu;
  if (!is_file(name)) return true;
  const std::optional<cost::Ceilings> ceilings = ceilings_in(name);
  return !ceilings || is_gpu_record(*ceilings);
}

void set_enqueue_time(TargetHardware& hardware, double microseconds) {
  constexpr double kMost = 1e6;
  if (microseconds == 0) return;
  if (!(microseconds > 0 && microseconds <= kMost))
    throw usage_error("[enqueue-us] expected more than 0 and at most {:g}, got {:g}", kMost,
                      microseconds);
  if (hardware.planned->name() == "cpu")
    throw usage_error("[enqueue-us] expected a GPU, got {}", printable(hardware.title));
  hardware.ceilings = cost::with_enqueue_time(std::move(hardware.ceilings), 1000 * microseconds);
}

TargetHardware choose_hardware(const std::string& name, const ThisMachine& machine, bool tf32) {
  const cost::Hardware* known = cost::find_hardware(name);
  if (name != "this" && known == nullptr && !is_file(name))
    throw usage_error("[hardware] expected this, {}, or a JSON file, got {}",
                      cost::hardware_names(), printable(name));
  TargetHardware made = name == "this"     ? this_hardware(machine)
                        : known != nullptr ? data_sheet_hardware(*known, tf32)
                                           : file_hardware(name, machine, tf32);
  made.name = known != nullptr ? known->name : name;
  return made;
}

std::vector<TargetHardware> choose_hardware_list(const std::string& hardware,
                                                 const ThisMachine& machine,
                                                 bool tf32) {
  constexpr size_t kMostHardware = 16;  // more lines than a screen leaves
  const std::vector<std::string> names =
      is_file(hardware) ? std::vector{hardware} : split(hardware);
  if (names.size() > kMostHardware)
    throw usage_error("[hardware] expected at most {} names", kMostHardware);
  std::vector<TargetHardware> all;
  for (const std::string& name : names) all.push_back(choose_hardware(name, machine, tf32));
  return all;
}

}  // namespace ridge::planning
