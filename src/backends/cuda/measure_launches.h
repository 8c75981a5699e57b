// SPDX-License-Identifier: Apache-2.0
// Measures what is no product, no attention and no walk over memory: arithmetic, strided operands,
// launches and steps.
#pragma once

#include "backends/cuda/measuring_stand.h"
#include "perf/ceilings.h"

namespace ridge::backends::cuda {

void measure_launches(MeasuringStand& stand, perf::Ceilings& c);

// What the host takes now to tell a launch among others, one by one.
double told_launch_ns(const Device& device);

}  // namespace ridge::backends::cuda
