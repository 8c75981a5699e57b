// SPDX-License-Identifier: Apache-2.0
// Bindings of the pointwise primitives (each a tile program of one instruction), of generated
// clusters, and of in-place sums.
#include "ops/pointwise.h"
#include "backends/bind/pointwise_formulas.h"
#include "backends/bind/pointwise_program.h"
#include "backends/cpu/kernel_table.h"
#include "backends/cpu/kernels/pointwise/tile_program.h"
#include "backends/cpu/strided_copy.h"

namespace ridge::backends::cpu {
namespace {

TileOperand tile_operand(const Operand& operand) {
  return {operand.data, operand.type.dtype, operand.strides};
}

Launch launch_of(TileKernel kernel) {
  return [kernel = std::move(kernel)] { kernel.run(); };
}

Launch bind_program(const BindCall& call, const TileProgram& program, const Shape& domain) {
  std::vector<TileOperand> inputs, outputs;
  for (const Operand& operand : call.inputs) inputs.push_back(tile_operand(operand));
  for (const Operand& operand : call.outputs) outputs.push_back(tile_operand(operand));
  return launch_of({program, domain, std::move(inputs), std::move(outputs)});
}

Launch bind_primitive(const BindCall& call) {
  if (ops::pointwise_function(*call.node.op) == Pointwise::kCast)
    return strided_copy(call.inputs[0], call.outputs[0]);
  TileProgram program;
  int inputs = static_cast<int>(call.inputs.size());
  program.registers = inputs + 1;
  program.outputs = {inputs};
  program.instructions = {{ops::pointwise_function(*call.node.op), inputs, 0, inputs - 1,
                           static_cast<float>(ops::pointwise_parameter(call.attrs()))}};
  return bind_program(call, program, call.outputs[0].type.shape);
}

Launch bind_cluster(const BindCall& call) {
  const Graph& cluster = call.attrs().nested("program");
  const int inputs = static_cast<int>(call.inputs.size());
  const TileProgram program = with_reused_registers(
      with_gelu_tanh(pointwise_program(cluster, call.inputs.size()), inputs), inputs);
  return bind_program(call, program, cluster.shape(cluster.outputs[0]));
}

}  // namespace

Launch add_in_place(const Operand& term, const Operand& total) {
  const TileProgram sum{{{Pointwise::kAdd, 2, 0, 1, 0.0f}}, {2}, 3};
  return launch_of(
      {sum, total.type.shape, {tile_operand(total), tile_operand(term)}, {tile_operand(total)}});
}

Kernel pointwise_kernel() { return pointwise_kernel_of("", bind_primitive); }

Kernel generated_pointwise_kernel() {
  return pointwise_kernel_of("generated_pointwise", bind_cluster);
}

}  // namespace ridge::backends::cpu
