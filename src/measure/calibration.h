// SPDX-License-Identifier: Apache-2.0
// The ceilings of a machine: a backend's probes timed side by side in rounds, so that what disturbs
// the machine for a while hits some samples of all of them and all of none.
#pragma once

#include <functional>
#include <string_view>

#include "backends/probe.h"
#include "cost/ceilings.h"

namespace ridge::measure {

// Called with the share that is done (0 to 1) and the name of the probe that comes next.
using CalibrationProgress = std::function<void(double done, std::string_view probe)>;

// Under 20 s on two cores.
cost::Ceilings calibrate(backends::Calibration& calibration,
                         const CalibrationProgress& progress = {});

}  // namespace ridge::measure
