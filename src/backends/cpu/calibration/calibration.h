// SPDX-License-Identifier: Apache-2.0
// What this machine reaches with oneDNN and the building blocks of Ridge's kernels, on generic
// sizes that no preset has; who this machine is, and what it should reach on paper.
#pragma once

#include <memory>

#include "backends/probe.h"

namespace ridge::backends::cpu {

// The machine as kernels see it now: after threads and ISA were set (make_cpu_backend does both).
cost::Machine this_machine();

// Random data; footprints from L1 to memory.
std::unique_ptr<Calibration> make_calibration();

}  // namespace ridge::backends::cpu
