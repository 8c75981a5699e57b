// SPDX-License-Identifier: Apache-2.0
// Measures the ceilings of a machine. The backend's probes are timed in interleaved rounds, so that
// a disturbance spoils a few samples of every probe rather than all samples of one. Rounds next to
// busy programs do not count; if too few others come in time, the ceilings are provisional.
#pragma once

#include <functional>
#include <string_view>

#include "backends/probe.h"
#include "cost/ceilings.h"

namespace ridge::measure {

// Called with the completed share (0 to 1) and what is being done.
using CalibrationProgress = std::function<void(double done, std::string_view step)>;

// A calibration asks the machine for these. Tests put their own in its place.
struct CalibrationMachine {
  std::function<double()> now_ns;
  // The share of the cores' time that other programs used since the last call, 0 to 1.
  std::function<double()> others_share;
};
CalibrationMachine calibration_machine();

// Takes up to 8 s on two quiet cores, and up to 15 s next to other programs.
cost::Ceilings calibrate(backends::Calibration& calibration,
                         const CalibrationProgress& progress = {},
                         const CalibrationMachine& machine = calibration_machine());

// The share of the cores' time that other programs use now, 0 to 1; takes a fifth of a second.
double others_share_now();

}  // namespace ridge::measure
