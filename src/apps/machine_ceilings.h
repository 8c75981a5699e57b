// SPDX-License-Identifier: Apache-2.0
// The ceilings of this machine for subcommands: from the cache file, or measured and kept there.
// Not a subcommand.
#pragma once

#include <filesystem>
#include <string_view>

#include "apps/model_options.h"
#include "base/terminal.h"
#include "cost/ceilings.h"

namespace ridge::apps {

// machine-<identity>.json in the cache folder; empty where there is none.
std::filesystem::path ceilings_path(const cost::Machine& machine);

// Warns on stderr where other programs kept the machine busy while they were measured.
// On the CPU, call after make_cpu_backend has set threads and ISA. Measures (about 15 s, with a
// progress bar) when nothing is kept for this machine or `remeasure` asks for it; a folder that
// cannot be written costs the file, not the run. With `tf32` a GPU's fp32 products are TF32's.
cost::Ceilings machine_ceilings(const MachineOptions& machine,
                                bool tf32,
                                const TerminalOptions& terminal,
                                bool remeasure = false);

}  // namespace ridge::apps
