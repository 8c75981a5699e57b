// SPDX-License-Identifier: Apache-2.0
// Measures what is no product, no attention and no walk over memory: arithmetic, strided operands,
// launches and steps.
#pragma once

#include <span>

#include "backends/cuda/measuring_stand.h"
#include "perf/ceilings.h"

namespace ridge::backends::cuda {

void measure_launches(MeasuringStand& stand, perf::Ceilings& c);

// What the host takes now to tell a launch among others, one by one.
double told_launch_ns(const Device& device);

// How many times as long it takes for one of `products` (at least one), among small kernels as in
// a step.
double told_product_ratio(const Device& device, std::span<const Launch> products);

}  // namespace ridge::backends::cuda
