// SPDX-License-Identifier: Apache-2.0
// The ceilings of this machine, read from the user's cache folder or measured and then kept there.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cost/ceilings.h"
#include "cost/link_curves.h"
#include "measure/calibration.h"

namespace ridge::measure {

// machine-<identity>.json in the cache folder; empty if there is no such folder.
std::filesystem::path ceilings_path(const cost::Machine& machine);

// Called with warnings, and with the reason for a repeated measurement.
using CeilingsNote = std::function<void(const std::string& note)>;

// The ceilings of this machine in the cache; measures nothing. On the CPU, call after make_backend
// has set threads and ISA.
std::optional<cost::Ceilings> known_ceilings(bool on_gpu, bool tf32, const CeilingsNote& note);

struct CeilingsRequest {
  bool tf32 = false;          // a GPU's fp32 GEMMs run in TF32
  bool has_inference = true;  // without it, what only inference needs may be missing
  bool remeasure = false;     // also if the cache has them
  bool on_gpu = false;
};

// Measures if the cache lacks something of the request: 4 to 8 s on a quiet machine, up to 15 s
// next to other programs. Ceilings that these disturbed are provisional: they come with a warning,
// and a call on a quiet machine measures them again. Continues if the cache folder is not writable.
// On the CPU, call after make_backend has set threads and ISA.
cost::Ceilings machine_ceilings(const CeilingsRequest& request,
                                const CalibrationProgress& progress,
                                const CeilingsNote& note);

// The device and how it is used now.
cost::Machine this_machine(bool on_gpu, bool tf32 = false);

// The links between the ranks of this host, measured by measure_links (link_ceilings.h). Their file
// is apart from the ceilings': they hold for any number of threads, so all ceilings have them.
std::vector<cost::LinkCurves> known_links(const cost::Machine& machine, const CeilingsNote& note);
// Replaces those of the same number of ranks.
void keep_link(const cost::Machine& machine,
               const cost::LinkCurves& link,
               const CeilingsNote& note);

// Keeps ceilings that a run has raised in the cache. Notes a failure.
void keep_ceilings(const cost::Ceilings& ceilings, const CeilingsNote& note);

}  // namespace ridge::measure
