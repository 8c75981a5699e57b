// SPDX-License-Identifier: Apache-2.0
// Determines which operands a kernel may read before earlier launches end
// (kernels/early_start.cuh).
#pragma once

#include <cstddef>

#include "backends/backend.h"

namespace ridge::backends::cuda {

// Whether no launch of this graph except the call's own writes the operand: an input from the host,
// a parameter that is not updated, or a state that the call itself updates. Launches before the
// graph have ended by then, because the host's inputs are copied in between.
bool is_settled(const BindCall& call, size_t input);

}  // namespace ridge::backends::cuda
