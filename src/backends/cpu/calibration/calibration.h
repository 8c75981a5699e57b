// SPDX-License-Identifier: Apache-2.0
// Measures what this machine reaches with oneDNN and the building blocks of Ridge's kernels, on
// generic sizes that no preset has. Also identifies the machine and its theoretical rates.
#pragma once

#include <memory>

#include "backends/probe.h"

namespace ridge::backends::cpu {

// The machine as kernels see it now. Call it after threads and ISA were set, which make_cpu_backend
// does.
cost::Machine this_machine();

// Operands are random; footprints range from L1 to memory.
std::unique_ptr<Calibration> make_calibration();

}  // namespace ridge::backends::cpu
