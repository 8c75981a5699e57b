// SPDX-License-Identifier: Apache-2.0
// The program of a pointwise kernel: a small register program, with one instruction for a primitive
// and many for a generated cluster. Registers are fp32.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "base/pointwise.h"

namespace ridge::backends {

// registers[target] = function(registers[a], registers[b]); functions of one operand ignore b.
struct PointwiseInstruction {
  Pointwise function;
  int target;
  int a;
  int b;
  float parameter;
  DType stored_as = DType::kF32;  // round the result to this type, as a kernel that stores it would
};

// The first registers hold the inputs in order.
struct PointwiseProgram {
  std::vector<PointwiseInstruction> instructions;
  std::vector<int> outputs;  // registers to store, in order
  int registers = 0;
};

}  // namespace ridge::backends
