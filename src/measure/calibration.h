// SPDX-License-Identifier: Apache-2.0
// Measures the ceilings of a machine. The backend's probes are timed in interleaved rounds, so that
// a disturbance spoils a few samples of every probe rather than all samples of one.
#pragma once

#include <functional>
#include <string_view>

#include "backends/probe.h"
#include "cost/ceilings.h"

namespace ridge::measure {

// Called with the completed share (0 to 1) and the name of the next probe.
using CalibrationProgress = std::function<void(double done, std::string_view probe)>;

// Takes less than 20 s on two cores.
cost::Ceilings calibrate(backends::Calibration& calibration,
                         const CalibrationProgress& progress = {});

}  // namespace ridge::measure
