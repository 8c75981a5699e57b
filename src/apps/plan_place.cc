// SPDX-License-Identifier: Apache-2.0
// Finds the hardware of a plan by its name. Not a subcommand.
#include "apps/plan_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/machine_ceilings.h"
#include "backends/null/null_backend.h"
#include "base/error.h"
#include "base/printable.h"
#include "cost/hardware.h"
#include "files/json.h"
#include "files/mapped_file.h"

namespace ridge::apps {
namespace {

constexpr size_t kLargestFile = 4 << 20;

Place this_place(const MachineOptions& machine,
                 const passes::Selection& selection,
                 const TerminalOptions& terminal) {
  Place place;
  place.planned = make_backend(machine, selection);
  place.ceilings = machine_ceilings(machine, selection.has("tf32"), terminal);
  place.title = place.ceilings.machine.str();
  place.memory_bytes = place.ceilings.machine.memory_bytes;
  place.target = place.planned->name();
  place.source = "measured " + place.ceilings.measured_at;
  return place;
}

Place data_sheet_place(const cost::Hardware& hardware, bool tf32) {
  Place place;
  place.title = hardware.title;
  place.ceilings = cost::ceilings_of(hardware, tf32);
  place.planned = backends::null::make_null_target();
  place.target = "null";
  place.memory_bytes = hardware.memory_bytes;
  place.source = hardware.source;
  place.link_bytes_per_s =
      hardware.interconnect_giga_bytes * 1e9 / 2;  // sheets add both directions
  place.link = hardware.interconnect;
  place.board_watts = hardware.board_watts;
  return place;
}

bool is_gpu_record(const cost::Ceilings& ceilings) {
  return ceilings.machine.isa.starts_with("sm_");
}

// Ceilings that `ridge machine --json` printed, on this or another machine. A GPU is planned as a data
// sheet is, a CPU with this machine's kernels.
Place measured_place(cost::Ceilings ceilings,
                     const std::string& path,
                     const passes::Selection& selection) {
  const bool is_gpu = is_gpu_record(ceilings);
  const bool is_tf32 = ceilings.machine.isa.find("TF32") != std::string::npos;
  if (selection.has("tf32") != is_tf32)
    throw usage_error("[hardware] expected ceilings {} TF32 for this --dtype, got {}",
                      selection.has("tf32") ? "with" : "without", printable(path));
  MachineOptions cpu;
  cpu.device = "cpu";
  Place place;
  place.planned = is_gpu ? backends::null::make_null_target()
                         : std::unique_ptr<passes::PassTarget>(make_backend(cpu, selection));
  place.title = ceilings.machine.str();
  place.target = is_gpu ? "null" : "cpu";
  place.memory_bytes = ceilings.machine.memory_bytes;
  place.source =
      fmt::format("{}, measured {}", terminal_safe(path), terminal_safe(ceilings.measured_at));
  place.ceilings = std::move(ceilings);
  return place;
}

bool is_file(const std::string& name) {
  std::error_code error;
  return name != "this" && cost::find_hardware(name) == nullptr &&
         std::filesystem::exists(name, error);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> names;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

// Empty if the file is a data sheet.
std::optional<cost::Ceilings> ceilings_in(const std::string& path) {
  const std::string text = files::read_small_file(path, kLargestFile);
  const nlohmann::json json = files::parse_json(text, path);
  if (!json.is_object() || !json.contains("gemms")) return std::nullopt;
  return cost::ceilings_from_json(text, path);
}

Place file_place(const std::string& path, const passes::Selection& selection) {
  if (std::optional<cost::Ceilings> ceilings = ceilings_in(path))
    return measured_place(std::move(*ceilings), path, selection);
  return data_sheet_place(
      cost::hardware_from_json(files::read_small_file(path, kLargestFile), path),
      selection.has("tf32"));
}

}  // namespace

bool is_gpu_plan(const std::string& name, const MachineOptions& machine) {
  if (name == "this") return chosen_device(machine) == "cuda";
  if (!is_file(name)) return true;
  const std::optional<cost::Ceilings> ceilings = ceilings_in(name);
  return !ceilings || is_gpu_record(*ceilings);
}

Place choose_place(const std::string& name,
                   const MachineOptions& machine,
                   const passes::Selection& selection,
                   const TerminalOptions& terminal) {
  const cost::Hardware* known = cost::find_hardware(name);
  if (name != "this" && known == nullptr && !is_file(name))
    throw usage_error("[hardware] expected this, {}, or a JSON file, got {}",
                      cost::hardware_names(), printable(name));
  Place place = name == "this"     ? this_place(machine, selection, terminal)
                : known != nullptr ? data_sheet_place(*known, selection.has("tf32"))
                                   : file_place(name, selection);
  place.name = known != nullptr ? known->name : name;
  return place;
}

std::vector<Place> choose_places(const std::string& hardware,
                                 const MachineOptions& machine,
                                 const passes::Selection& selection,
                                 const TerminalOptions& terminal) {
  constexpr size_t kMostPlaces = 16;  // more lines than a screen leaves
  std::vector<Place> places;
  if (is_file(hardware) || hardware.find(',') == std::string::npos) {
    places.push_back(choose_place(hardware, machine, selection, terminal));
    return places;
  }
  for (const std::string& name : split(hardware)) {
    if (places.size() == kMostPlaces)
      throw usage_error("[hardware] expected at most {} names", kMostPlaces);
    places.push_back(choose_place(name, machine, selection, terminal));
  }
  return places;
}

}  // namespace ridge::apps
