// SPDX-License-Identifier: Apache-2.0
// Measures what this machine reaches with oneDNN and the building blocks of Ridge's kernels, on
// generic sizes that no preset has. Also identifies the machine and its theoretical rates.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "backends/probe.h"

namespace ridge::backends::cpu {

// The machine as kernels see it now. Call it after threads and ISA were set, which make_cpu_backend
// does.
cost::Machine this_machine();

// Operands are random; footprints range from L1 to memory.
std::unique_ptr<Calibration> make_calibration();

// Allocates and fills `bytes` of memory, and returns a function that reads them with all threads,
// as the calibration measures read bandwidth. It serves to measure the bandwidth beside other work:
// on a shared machine it changes from one moment to the next. Empty below a page a thread.
std::function<void()> memory_reader(int64_t bytes);

}  // namespace ridge::backends::cpu
