// SPDX-License-Identifier: Apache-2.0
// Operands that a kernel may read before the launches before it end (kernels/early_start.cuh).
#pragma once

#include <cstddef>

#include "backends/backend.h"

namespace ridge::backends::cuda {

// Whether no launch of this graph but the call's own writes the operand: an input of the host's, a
// parameter that is not updated, or a state that the call itself updates. What ran before the graph
// has ended by then: the host's inputs come in between.
bool is_settled(const BindCall& call, size_t input);

}  // namespace ridge::backends::cuda
