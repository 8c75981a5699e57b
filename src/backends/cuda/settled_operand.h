// SPDX-License-Identifier: Apache-2.0
// Operands that a kernel may read before the launches before it end (kernels/early_start.cuh).
#pragma once

#include <cstddef>

#include "backends/backend.h"

namespace ridge::backends::cuda {

// Whether no launch of this graph writes the operand: an input of the host's, or a parameter that
// is not updated.
bool is_settled(const BindCall& call, size_t input);

}  // namespace ridge::backends::cuda
