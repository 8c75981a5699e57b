// SPDX-License-Identifier: Apache-2.0
// Measures what is no product, no attention and no walk over memory: arithmetic, strided operands,
// launches, steps, and updates beside products.
#pragma once

#include "backends/cuda/measuring_stand.h"
#include "perf/ceilings.h"

namespace ridge::backends::cuda {

void measure_launches(MeasuringStand& stand, perf::Ceilings& c);

// `product` is one of a size of which a layer has many.
void measure_updates_beside(MeasuringStand& stand, const Launch& product, perf::Ceilings& c);

}  // namespace ridge::backends::cuda
