// SPDX-License-Identifier: Apache-2.0
// Measures what this GPU reaches with cuBLASLt and the simplest kernels, on generic sizes that no
// preset has. Takes a few seconds.
#pragma once

#include <memory>

#include "backends/probe.h"

namespace ridge::backends::cuda {

// Both throw a device Error if no GPU can be used. With tf32, GEMMs of fp32 are measured in TF32,
// and the machine's description includes that.
cost::Machine this_machine(bool tf32 = false);
std::unique_ptr<Calibration> make_calibration(bool tf32);
// The share of the GPU's time that other programs take now, 0 to 1; takes a tenth of a second.
double others_share_now();

}  // namespace ridge::backends::cuda
