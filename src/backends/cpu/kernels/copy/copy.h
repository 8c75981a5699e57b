// SPDX-License-Identifier: Apache-2.0
// Copies between strided layouts on CPUs, as backends/kernels/copy.h describes them.
#pragma once

#include "backends/kernels/copy.h"

namespace ridge::backends::cpu {

// Fast where the innermost target dimension is contiguous and the source has that dimension, or
// another, contiguous (runs, transpositions), or repeats one element along it. Any other layout is
// right but scalar. Throws InternalError for a rank out of range or a negative extent or stride.
template <typename From, typename To>
void copy(const Copy<From, To>& call);

}  // namespace ridge::backends::cpu
