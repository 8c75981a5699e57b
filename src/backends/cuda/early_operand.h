// SPDX-License-Identifier: Apache-2.0
// Determines which operands a kernel may read before earlier launches end
// (kernels/early_start.cuh).
#pragma once

#include <cstddef>

#include "backends/backend.h"

namespace ridge::backends::cuda {

// Whether an operand is ready before the grid dependency (programmatic dependent launch): no launch
// of this graph except the call's own writes it. It is an input from the host, a parameter that is
// not updated, or a state that the call itself updates. Launches before the graph have ended by
// then, because the host's inputs are copied in between.
bool is_ready_early(const BindCall& call, size_t input);

// Whether the only launch of this graph that has written an operand, a KV cache, is a rope_append
// of the same positions, slots and blocks, inputs `cells` to `cells` + 2 of the call, which are
// ready early: other rows of the cache are, too.
bool is_ready_but_for_own_rows(const BindCall& call, size_t cache, size_t cells);

}  // namespace ridge::backends::cuda
