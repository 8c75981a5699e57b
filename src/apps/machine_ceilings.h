// SPDX-License-Identifier: Apache-2.0
// The ceilings of this machine, read from the cache file or measured and then cached. Not a
// subcommand.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "apps/model_options.h"
#include "cost/ceilings.h"
#include "report/terminal.h"

namespace ridge::apps {

// machine-<identity>.json in the cache folder; empty if there is no such folder.
std::filesystem::path ceilings_path(const cost::Machine& machine);

// What the cache has for this machine; measures nothing. Call as machine_ceilings.
std::optional<cost::Ceilings> known_ceilings(const MachineOptions& machine, bool tf32);

// Measures (about 15 s, with a progress bar) if the cache has no ceilings for this machine or if
// `remeasure` is set. Continues if the cache folder is not writable. Warns on stderr if other
// programs were busy during the measurement. On the CPU, call after make_cpu_backend has set
// threads and ISA. With `tf32`, a GPU's fp32 GEMMs run in TF32.
cost::Ceilings machine_ceilings(const MachineOptions& machine,
                                bool tf32,
                                const TerminalOptions& terminal,
                                bool remeasure = false);

}  // namespace ridge::apps
