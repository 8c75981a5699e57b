// SPDX-License-Identifier: Apache-2.0
// Bindings of the pointwise primitives, each a tile program of one instruction.
#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/tile_program.h"
#include "ops/pointwise.h"

namespace ridge::backends::cpu {
namespace {

TileOperand tile_operand(const Operand& operand) { return {operand.data, operand.type.dtype, operand.strides}; }

Launch bind(const BindCall& call) {
  TileProgram program;
  int inputs = static_cast<int>(call.inputs.size());
  program.registers = inputs + 1;
  program.outputs = {inputs};
  program.instructions = {{ops::pointwise_function(*call.node.op), inputs, 0, inputs - 1,
                           static_cast<float>(ops::pointwise_parameter(call.attrs()))}};
  std::vector<TileOperand> in;
  for (const Operand& operand : call.inputs) in.push_back(tile_operand(operand));
  TileKernel kernel(program, call.outputs[0].type.shape, in, {tile_operand(call.outputs[0])});
  return [kernel = std::move(kernel)] { kernel.run(); };
}

bool any_layout(const Call&, int, const Layout&) { return true; }

}  // namespace

const CpuKernel& pointwise_kernel() {
  static const CpuKernel kernel{
      .op = "", .bind = bind, .takes_input = any_layout, .takes_output = any_layout, .in_place = true};
  return kernel;
}

}  // namespace ridge::backends::cpu
