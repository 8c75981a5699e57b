// SPDX-License-Identifier: Apache-2.0
// Reads the arguments and makes the backend.
#include "python/place.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <omp.h>

#include "base/error.h"
#include "base/printable.h"
#include "measure/machine_ceilings.h"
#include "passes/level_options.h"
#include "python/type_names.h"

namespace ridge::python {
namespace {

// OpenMP keeps the number that an earlier call has set; the default is that of the import.
const int kThreadsAtImport = omp_get_max_threads();

}  // namespace

Place::Place(Keywords& keywords, const std::string& device) {
  passes::LevelOptions level{.level = "baseline"};
  if (!device.empty()) machine.device = device;
  take_machine(keywords, machine);
  keywords.take("level", level.level), keywords.take("passes", level.switches);
  selection = passes::Selection(level.level, level.switches);
  backend = backends::make_backend(machine, selection);
}

std::optional<cost::Ceilings> Place::ceilings() const {
  return measure::known_ceilings(backends::is_gpu(machine), selection.has("tf32"),
                                 [](const std::string&) {});
}

void take_machine(Keywords& keywords, backends::MachineOptions& machine) {
  take_device(keywords, machine.device), keywords.take("threads", machine.threads);
  keywords.take("isa", machine.isa);
  if (machine.threads == 0) omp_set_num_threads(kThreadsAtImport);
}

bool expect_exact_or_default(const std::string& dtype) {
  if (!dtype.empty() && dtype != "fp32")
    throw usage_error("[dtype] expected fp32, the exact arithmetic, or None, got {}",
                      printable(dtype));
  return dtype == "fp32";
}

double budget_ns(double seconds) {
  if (!(seconds > 0 && seconds <= 3600))
    throw usage_error("[seconds] expected a number above 0, up to 3600, got {}", seconds);
  return seconds * 1e9;
}

}  // namespace ridge::python
