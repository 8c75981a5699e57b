// SPDX-License-Identifier: Apache-2.0
// The compute time of pointwise functions, their programs and copies: arithmetic in registers, and
// what brings operands of any layout and type into registers and out of them.
#pragma once

#include "cost/ceilings.h"
#include "cost/costed_graph.h"

namespace ridge::cost {

// The compute time of work with operands in registers.
double fused_ns(const Ceilings& ceilings, const Work& work, DType products = DType::kF32);

struct ProgramTime {
  double compute_ns = 0;
  // Instructions read and write dense operands directly, so that memory and arithmetic overlap.
  // Other operands pass through registers a tile at a time, before and after the instructions, so
  // that the times add up.
  bool overlaps_memory = false;
};

// The time of a node whose time law is the access pattern.
ProgramTime program_time(const CostedGraph& costed,
                         const Ceilings& ceilings,
                         const Node& node,
                         const Work& work);

}  // namespace ridge::cost
