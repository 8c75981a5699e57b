// SPDX-License-Identifier: Apache-2.0
// This machine's ceilings, measured under a progress bar, and the machine as planners see it: its
// kernels, and its ceilings if a plan needs them. Not a subcommand.
#pragma once

#include <optional>

#include "apps/model_options.h"
#include "measure/machine_ceilings.h"
#include "planning/target_hardware.h"

namespace ridge::apps {

using measure::CeilingsRequest;

// Those of measure/machine_ceilings.h for the device of the options.
std::optional<cost::Ceilings> known_ceilings(const MachineOptions& machine, bool tf32);
cost::Ceilings machine_ceilings(const MachineOptions& machine,
                                CeilingsRequest request,
                                const TerminalOptions& terminal);

// --enqueue-us
void add_enqueue_option(Command app, double& microseconds);

// `has_inference` as in CeilingsRequest.
planning::ThisMachine this_machine(const MachineOptions& machine,
                                   const passes::Selection& selection,
                                   const TerminalOptions& terminal,
                                   bool has_inference = true);

}  // namespace ridge::apps
