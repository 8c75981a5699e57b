// SPDX-License-Identifier: Apache-2.0
// This machine as planners see it: its kernels, and its ceilings if a plan needs them. Not a
// subcommand.
#pragma once

#include "apps/model_options.h"
#include "planning/target_hardware.h"
#include "report/terminal.h"

namespace ridge::apps {

// `has_inference` as in CeilingsRequest.
planning::ThisMachine this_machine(const MachineOptions& machine,
                                   const passes::Selection& selection,
                                   const TerminalOptions& terminal,
                                   bool has_inference = true);

}  // namespace ridge::apps
