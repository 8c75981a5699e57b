// SPDX-License-Identifier: Apache-2.0
// Finds the hardware of a plan by its name.
#include "planning/place.h"

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

Place this_place(const ThisMachine& machine) {
  Place place;
  place.planned = machine.target();
  place.ceilings = machine.ceilings();
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

// Ceilings that `ridge machine --json` printed, on this or another machine. A GPU is planned as a
// data sheet is, a CPU with this machine's kernels.
Place measured_place(cost::Ceilings ceilings,
                     const std::string& path,
                     const ThisMachine& machine,
                     bool tf32) {
  const bool is_gpu = is_gpu_record(ceilings);
  const bool is_tf32 = ceilings.machine.isa.find("TF32") != std::string::npos;
  if (tf32 != is_tf32)
    throw usage_error("[hardware] expected ceilings {} TF32 for this --dtype, got {}",
                      tf32 ? "with" : "without", printable(path));
  Place place;
  place.planned = is_gpu ? backends::null::make_null_target() : machine.cpu_target();
  place.title = ceilings.machine.str();
  place.target = is_gpu ? "null" : "cpu";
  place.memory_bytes = ceilings.machine.memory_bytes;
  place.source = fmt::format("{}, measured {}", path, ceilings.measured_at);
  place.ceilings = std::move(ceilings);
  return place;
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

Place file_place(const std::string& path, const ThisMachine& machine, bool tf32) {
  if (std::optional<cost::Ceilings> ceilings = ceilings_in(path))
    return measured_place(std::move(*ceilings), path, machine, tf32);
  return data_sheet_place(
      cost::hardware_from_json(files::read_small_file(path, kLargestFile), path), tf32);
}

}  // namespace

bool is_gpu_plan(const std::string& name, bool this_is_gpu) {
  if (name == "this") return this_is_gpu;
  if (!is_file(name)) return true;
  const std::optional<cost::Ceilings> ceilings = ceilings_in(name);
  return !ceilings || is_gpu_record(*ceilings);
}

Place choose_place(const std::string& name, const ThisMachine& machine, bool tf32) {
  const cost::Hardware* known = cost::find_hardware(name);
  if (name != "this" && known == nullptr && !is_file(name))
    throw usage_error("[hardware] expected this, {}, or a JSON file, got {}",
                      cost::hardware_names(), printable(name));
  Place place = name == "this"     ? this_place(machine)
                : known != nullptr ? data_sheet_place(*known, tf32)
                                   : file_place(name, machine, tf32);
  place.name = known != nullptr ? known->name : name;
  return place;
}

std::vector<Place> choose_places(const std::string& hardware,
                                 const ThisMachine& machine,
                                 bool tf32) {
  constexpr size_t kMostPlaces = 16;  // more lines than a screen leaves
  const std::vector<std::string> names =
      is_file(hardware) ? std::vector{hardware} : split(hardware);
  if (names.size() > kMostPlaces)
    throw usage_error("[hardware] expected at most {} names", kMostPlaces);
  std::vector<Place> places;
  for (const std::string& name : names) places.push_back(choose_place(name, machine, tf32));
  return places;
}

}  // namespace ridge::planning
