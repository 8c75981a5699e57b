// SPDX-License-Identifier: Apache-2.0
// Measures what this GPU reaches with cuBLASLt and the simplest kernels, on generic sizes that no
// preset has. Takes some seconds.
#pragma once

#include <functional>
#include <string_view>

#include "cost/ceilings.h"

namespace ridge::backends::cuda {

// Called with the share that is done (0 to 1) and what comes next.
using MeasureProgress = std::function<void(double done, std::string_view step)>;

// Both throw a device Error where no GPU can be used.
// With tf32, products of fp32 are measured in TF32, and the machine says so.
cost::Machine this_machine(bool tf32 = false);
cost::Ceilings measure_ceilings(bool tf32, const MeasureProgress& progress = {});

}  // namespace ridge::backends::cuda
