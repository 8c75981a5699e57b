// SPDX-License-Identifier: Apache-2.0
// The causal or window mask on CPUs; backends/kernels/causal_mask.h defines it.
#pragma once

#include "backends/kernels/causal_mask.h"

namespace ridge::backends::cpu {

template <typename T>
void causal_mask(const CausalMask<T>& call);

}  // namespace ridge::backends::cpu
