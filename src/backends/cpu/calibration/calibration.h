// SPDX-License-Identifier: Apache-2.0
// Measures what this machine reaches with oneDNN and the building blocks of Ridge's kernels, on
// generic sizes that no preset has. Also identifies the machine and its theoretical rates.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "backends/probe.h"

namespace ridge::backends::cpu {

// The machine as kernels see it now. Call it after threads and ISA were set, which make_cpu_backend
// does.
cost::Machine this_machine();

// Chooses what a calibration measures. Inference also needs GEMMs of quantized weights and ops on a
// KV cache, which take longer than everything else.
struct CalibrationScope {
  bool has_inference = true;
  // Ceilings of this machine without inference; the calibration adds it and measures nothing else.
  std::optional<cost::Ceilings> known = {};
};

// Operands are random; footprints range from L1 to memory.
std::unique_ptr<Calibration> make_calibration(CalibrationScope scope = {});

// Allocates and fills `bytes` of memory, and returns a function that reads them with all threads,
// as the calibration measures read bandwidth. It serves to measure the bandwidth next to other
// work: on a shared machine it changes from one moment to the next. Empty below
// a page a thread.
std::function<void()> memory_reader(int64_t bytes);

}  // namespace ridge::backends::cpu
