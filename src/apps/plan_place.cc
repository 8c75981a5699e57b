// SPDX-License-Identifier: Apache-2.0
// Finds the hardware of a plan by its name. Not a subcommand.
#include "apps/plan_place.h"

#include <filesystem>

#include "apps/machine_ceilings.h"
#include "backends/null/null_backend.h"
#include "base/error.h"
#include "base/printable.h"
#include "cost/hardware.h"
#include "files/mapped_file.h"

namespace ridge::apps {
namespace {

constexpr size_t kLargestFile = 1 << 20;

cost::Hardware hardware(const std::string& name) {
  if (const cost::Hardware* known = cost::find_hardware(name)) return *known;
  std::error_code error;
  if (std::filesystem::exists(name, error))
    return cost::hardware_from_json(files::read_small_file(name, kLargestFile), name);
  throw usage_error("[hardware] expected this, {}, or a JSON file, got {}", cost::hardware_names(),
                    printable(name));
}

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

Place data_sheet_place(const cost::Hardware& hardware) {
  Place place;
  place.title = hardware.title;
  place.ceilings = cost::ceilings_of(hardware);
  place.planned = backends::null::make_null_target();
  place.target = "null";
  place.memory_bytes = hardware.memory_bytes;
  place.source = hardware.source;
  return place;
}

}  // namespace

Place choose_place(const std::string& name,
                   const MachineOptions& machine,
                   const passes::Selection& selection,
                   const TerminalOptions& terminal) {
  return name == "this" ? this_place(machine, selection, terminal)
                        : data_sheet_place(hardware(name));
}

double theoretical_flops_per_ns(const cost::Ceilings& ceilings, DType dtype) {
  const cost::ProductRates& rates = ceilings.product(dtype);
  return rates.theoretical_flops_per_ns > 0 ? rates.theoretical_flops_per_ns
                                            : rates.peak_flops_per_ns;
}

}  // namespace ridge::apps
