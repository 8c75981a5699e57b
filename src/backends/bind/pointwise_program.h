// SPDX-License-Identifier: Apache-2.0
// A generated cluster, a nested graph of pointwise nodes, as a register program. Not its kernel.
#pragma once

#include "backends/kernels/pointwise_program.h"
#include "graph/graph.h"

namespace ridge::backends {

// Of a generated_pointwise with so many inputs.
PointwiseProgram pointwise_program(const Graph& cluster, size_t inputs);

}  // namespace ridge::backends
