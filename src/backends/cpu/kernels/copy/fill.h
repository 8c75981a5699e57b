// SPDX-License-Identifier: Apache-2.0
// Sets every element of a strided matrix to one value, on CPUs.
#pragma once

#include "backends/kernels/fill.h"

namespace ridge::backends::cpu {

// T is float, uint16_t (bf16), Float16 or int32_t.
template <typename T>
void fill(const Fill<T>& call);

}  // namespace ridge::backends::cpu
