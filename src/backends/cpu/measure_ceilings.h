// SPDX-License-Identifier: Apache-2.0
// Measures what this machine reaches with oneDNN and the building blocks of Ridge's kernels, on
// generic sizes that no preset has. Takes under 20 s on two cores.
#pragma once

#include <functional>
#include <string_view>

#include "cost/ceilings.h"

namespace ridge::backends::cpu {

// Called with the share that is done (0 to 1) and what comes next.
using MeasureProgress = std::function<void(double done, std::string_view step)>;

// The machine as kernels see it now: after threads and ISA were set (make_cpu_backend does both).
cost::Machine this_machine();

// Random data, warmed up; rounds that go through all measurements; footprints from
// L1 to memory.
cost::Ceilings measure_ceilings(const MeasureProgress& progress = {});

// See Backend::present_pace. Takes about 50 ms.
double present_pace(const cost::Ceilings& ceilings);

}  // namespace ridge::backends::cpu
