// SPDX-License-Identifier: Apache-2.0
// Translates a generated cluster, a nested graph of pointwise nodes, to a register program.
#pragma once

#include "backends/kernels/pointwise_program.h"
#include "graph/graph.h"

namespace ridge::backends {

// `inputs` is the number of inputs of the generated_pointwise node.
PointwiseProgram pointwise_program(const Graph& cluster, size_t inputs);

}  // namespace ridge::backends
