// SPDX-License-Identifier: Apache-2.0
// What a kernel of pointwise work is given: a small register program, one instruction for a
// primitive, many for a generated cluster. Registers are fp32.
#pragma once

#include <vector>

#include "base/pointwise.h"

namespace ridge::backends {

// registers[target] = function(registers[a], registers[b]); b is unused by functions of one operand.
struct PointwiseInstruction {
  Pointwise function;
  int target;
  int a;
  int b;
  float parameter;
  bool rounds = false;  // the result is rounded to bf16, as a kernel that stored it would
};

// The first registers hold the inputs in order.
struct PointwiseProgram {
  std::vector<PointwiseInstruction> instructions;
  std::vector<int> outputs;  // registers that are stored, in order
  int registers = 0;
};

}  // namespace ridge::backends
