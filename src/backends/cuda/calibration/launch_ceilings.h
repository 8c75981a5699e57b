// SPDX-License-Identifier: Apache-2.0
// Measures everything except products, attention and memory sweeps: arithmetic, strided operands,
// launches and steps.
#pragma once

#include "backends/cuda/calibration/measuring_fixture.h"
#include "cost/ceilings.h"

namespace ridge::backends::cuda {

// Sets the arithmetic and strided rates, launch_ns, empty_step_ns and round_ns of `c`.
void measure_launches(MeasuringFixture& fixture, cost::Ceilings& c);

}  // namespace ridge::backends::cuda
