// SPDX-License-Identifier: Apache-2.0
// Chooses the next token of each slot on CPUs; backends/kernels/sample.h says by what.
#pragma once

#include "backends/kernels/sample.h"

namespace ridge::backends::cpu {

int64_t sample_workspace_bytes(int64_t vocabulary);

// Bound: memory, one read of the logits, where a slot is greedy; else the sorting of what may stay.
void sample(const Sample& call);

}  // namespace ridge::backends::cpu
