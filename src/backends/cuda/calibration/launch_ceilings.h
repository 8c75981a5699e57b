// SPDX-License-Identifier: Apache-2.0
// Measures what is no product, no attention and no walk over memory: arithmetic, strided operands,
// launches and steps.
#pragma once

#include "backends/cuda/calibration/measuring_stand.h"
#include "cost/ceilings.h"

namespace ridge::backends::cuda {

// c.stream_launch_ns is known.
void measure_launches(MeasuringStand& stand, cost::Ceilings& c);

}  // namespace ridge::backends::cuda
