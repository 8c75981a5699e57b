// SPDX-License-Identifier: Apache-2.0
// Pointwise work as a small register program run over tiles that stay in L1: one instruction for a
// primitive, many for a generated cluster. Operands are strided (a stride of 0 repeats), float or
// bf16; registers are float.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/pointwise.h"
#include "base/shape.h"

namespace ridge::backends::cpu {

// registers[target] = function(registers[a],
// registers[b]); b is unused by functions of one operand.
struct TileInstruction {
  Pointwise function;
  int target;
  int a;
  int b;
  float parameter;
  bool rounds = false;  // the result is rounded to bf16, as a kernel that stored it would
};

// The first registers hold the inputs in order.
struct TileProgram {
  std::vector<TileInstruction> instructions;
  std::vector<int> outputs;  // registers that are stored, in order
  int registers = 0;
};

struct TileOperand {
  void* data = nullptr;  // null where absent
  DType dtype = DType::kF32;
  Strides strides;  // over the domain's axes, in elements
};

// A program bound to operands of one shape. An output
// may be an input's own bytes in the same layout.
class TileKernel {
 public:
  TileKernel(const TileProgram& program,
             const Shape& domain,
             std::vector<TileOperand> inputs,
             std::vector<TileOperand> outputs);

  // Mapping: the domain in row-major order in static ranges over threads, each in tiles. Bound:
  // memory, each operand once; with transcendental functions about 1 to 2 ns a vector each.
  void run() const;

 private:
  void collapse();
  bool may_compute_in_place(size_t output) const;

  TileProgram program_;
  Shape domain_;
  std::vector<TileOperand> inputs_;
  std::vector<TileOperand> outputs_;
  std::vector<bool> computed_in_place_;  // per output
  int64_t tile_ = 0;                     // elements
  int64_t bytes_ = 0;                    // of all operands
};

}  // namespace ridge::backends::cpu
