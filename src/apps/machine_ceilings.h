// SPDX-License-Identifier: Apache-2.0
// The ceilings of this machine for subcommands: from the cache file, or measured and kept there.
// Not a subcommand.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/terminal.h"
#include "perf/ceilings.h"

namespace ridge::apps {

// ${XDG_CACHE_HOME:-$HOME/.cache}/ridge/machine-<identity>.json; empty where neither is set.
std::filesystem::path ceilings_path(const perf::Machine& machine);

// On the CPU, call after make_cpu_backend has set threads and ISA. Measures (about 15 s, with a
// progress bar) when nothing is kept for this machine or `remeasure` asks for it; a folder that
// cannot be written costs the file, not the run. `device`: "cpu", "cuda", or "cuda" with `tf32`:
// fp32 products in TF32.
struct Measured {
  std::string device;
  bool tf32 = false;
};
perf::Ceilings machine_ceilings(const Measured& what,
                                const TerminalOptions& terminal,
                                bool remeasure = false);

}  // namespace ridge::apps
