// SPDX-License-Identifier: Apache-2.0
// Chooses the next token of each slot on CPUs; backends/kernels/sample.h declares the arguments.
#pragma once

#include "backends/kernels/sample.h"

namespace ridge::backends::cpu {

int64_t sample_workspace_bytes(int64_t vocabulary);

// Bound: for a greedy slot memory, one read of the logits; else sorting the candidates.
void sample(const Sample& call);

}  // namespace ridge::backends::cpu
