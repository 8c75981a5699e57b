// SPDX-License-Identifier: Apache-2.0
// Translates a generated cluster, a nested graph of pointwise nodes, to a register program, and
// describes the kernels that run pointwise nodes.
#pragma once

#include "backends/kernel.h"
#include "backends/kernels/pointwise_program.h"
#include "backends/row_layout.h"
#include "graph/graph.h"

namespace ridge::backends {

// `inputs` is the number of inputs of the generated_pointwise node.
PointwiseProgram pointwise_program(const Graph& cluster, size_t inputs);

// A kernel that accepts any layout and may write over an input. `op` is empty for primitives.
inline Kernel pointwise_kernel_of(std::string_view op, Bind bind) {
  return {.op = op,
          .bind = std::move(bind),
          .takes_input = any_layout,
          .takes_output = any_layout,
          .in_place = true};
}

}  // namespace ridge::backends
