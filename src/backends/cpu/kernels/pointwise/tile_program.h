// SPDX-License-Identifier: Apache-2.0
// Pointwise work as a register program that runs over tiles in L1. Operands are strided (a stride
// of 0 repeats), float or bf16; registers are float.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/kernels/pointwise_program.h"
#include "base/dtype.h"
#include "base/shape.h"

namespace ridge::backends::cpu {

using TileInstruction = PointwiseInstruction;
using TileProgram = PointwiseProgram;

// The same program with as few registers as its values' lives allow, so that a tile is as large as
// L1 permits. Inputs, which may be the operands themselves, and outputs keep their own registers.
TileProgram with_reused_registers(const TileProgram& program, int inputs);

struct TileOperand {
  void* data = nullptr;  // null if absent
  DType dtype = DType::kF32;
  Strides strides;  // over the domain's axes, in elements
};

// A program bound to operands of one shape. An output may share the bytes of an input in the same
// layout.
class TileKernel {
 public:
  TileKernel(const TileProgram& program,
             const Shape& domain,
             std::vector<TileOperand> inputs,
             std::vector<TileOperand> outputs);

  // Mapping: the domain in row-major order in static ranges over threads, each in tiles. Bound:
  // memory, each operand once; transcendental functions take about 1 to 2 ns per vector each.
  void run() const;

 private:
  void collapse();
  bool may_compute_in_place(size_t output) const;
  bool is_bf16_alone() const;

  TileProgram program_;
  Shape domain_;
  std::vector<TileOperand> inputs_;
  std::vector<TileOperand> outputs_;
  std::vector<bool> computed_in_place_;  // per output
  bool is_bf16_alone_ = false;           // one instruction, all operands dense bf16
  int64_t tile_ = 0;                     // elements
  int64_t bytes_ = 0;                    // all operands have so many
};

}  // namespace ridge::backends::cpu
