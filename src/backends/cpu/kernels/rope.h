// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding and its table on CPUs; backends/kernels/rope.h defines them.
#pragma once

#include "backends/kernels/rope.h"

namespace ridge::backends::cpu {

// Throws InternalError for an odd head size.
template <typename T>
void rope(const Rope<T>& call);

void rope_table(const RopeTable& call);

}  // namespace ridge::backends::cpu
