// SPDX-License-Identifier: Apache-2.0
// This machine's ceilings, and the machine as planners see it.
#pragma once

#include "backends/machine.h"
#include "measure/machine_ceilings.h"
#include "planning/target_hardware.h"

namespace ridge::python {

// The ceilings of this machine; measures them if they are unknown, which Ctrl-C ends. The GIL must
// not be held.
cost::Ceilings machine_ceilings(const backends::MachineOptions& machine,
                                measure::CeilingsRequest request);

planning::ThisMachine this_machine(const backends::MachineOptions& machine,
                                   const passes::Selection& selection);

}  // namespace ridge::python
