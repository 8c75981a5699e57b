// SPDX-License-Identifier: Apache-2.0
// Copies between strided layouts on CPUs; backends/kernels/copy.h defines them.
#pragma once

#include "backends/kernels/copy.h"

namespace ridge::backends::cpu {

// Fast if the innermost target dimension is contiguous and the source is contiguous along that
// dimension (runs) or another one (transpositions), or repeats one element along it. Any other
// layout runs a scalar loop. Throws InternalError for a rank out of range or a negative extent or
// stride.
template <typename From, typename To>
void copy(const Copy<From, To>& call);

}  // namespace ridge::backends::cpu
