// SPDX-License-Identifier: Apache-2.0
// Measures what is no product, no attention and no walk over memory: arithmetic, strided operands,
// launches and steps.
#pragma once

#include "backends/cuda/measuring_stand.h"
#include "perf/ceilings.h"

namespace ridge::backends::cuda {

void measure_launches(MeasuringStand& stand, perf::Ceilings& c);

// How fast the host tells launches one by one now, of the rate that the ceilings have.
double present_pace_of_launches(const Device& device, const perf::Ceilings& ceilings);

}  // namespace ridge::backends::cuda
