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

// The ceilings of this machine in the cache; measures nothing. Call as machine_ceilings.
std::optional<cost::Ceilings> known_ceilings(const MachineOptions& machine, bool tf32);

// The ceilings that a command needs.
struct CeilingsRequest {
  bool tf32 = false;          // a GPU's fp32 GEMMs run in TF32
  bool has_inference = true;  // without it, what only inference needs may be missing
  bool remeasure = false;     // also if the cache has them
};

// Measures with a progress bar if the cache lacks something of the request: 4 to 8 s on a quiet
// machine, up to 15 s next to other programs. Ceilings that these disturbed are provisional: they
// come with a warning, and a call on a quiet machine measures them again. Continues if the cache
// folder is not writable. On the CPU, call after make_cpu_backend has set threads and ISA.
cost::Ceilings machine_ceilings(const MachineOptions& machine,
                                const CeilingsRequest& request,
                                const TerminalOptions& terminal);

// Keeps ceilings that a run has raised in the cache. Warns if that fails.
void keep_ceilings(const cost::Ceilings& ceilings, const TerminalOptions& terminal);

}  // namespace ridge::apps
