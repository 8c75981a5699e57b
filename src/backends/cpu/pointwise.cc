// SPDX-License-Identifier: Apache-2.0
// Bindings of the pointwise primitives, each a tile
// program of one instruction, and of generated clusters.
#include <string>

#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/pointwise/tile_program.h"
#include "backends/cpu/strided_copy.h"
#include "ops/pointwise.h"

namespace ridge::backends::cpu {
namespace {

TileOperand tile_operand(const Operand& operand) {
  return {operand.data, operand.type.dtype, operand.strides};
}

Launch bind_program(const BindCall& call, const TileProgram& program, const Shape& domain) {
  std::vector<TileOperand> inputs, outputs;
  for (const Operand& operand : call.inputs) inputs.push_back(tile_operand(operand));
  for (const Operand& operand : call.outputs) outputs.push_back(tile_operand(operand));
  TileKernel kernel(program, domain, std::move(inputs), std::move(outputs));
  return [kernel = std::move(kernel)] { kernel.run(); };
}

Launch bind(const BindCall& call) {
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

// A cast inside a cluster to a narrower type rounds only what leaves; a bf16 value that other
// instructions read must be the rounded one, so it is an instruction of its own.
Launch bind_generated(const BindCall& call) {
  const Graph& graph = call.attrs().nested("program");
  TileProgram program;
  program.registers = static_cast<int>(call.inputs.size());
  std::vector<int> registers(graph.values.size(), -1);
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].producer == kNoNode) registers[i] = std::stoi(graph.values[i].name);
  for (const Node& node : graph.nodes) {
    int target = program.registers++;
    registers[static_cast<size_t>(node.outputs[0])] = target;
    program.instructions.push_back({ops::pointwise_function(*node.op), target,
                                    registers[static_cast<size_t>(node.inputs.front())],
                                    registers[static_cast<size_t>(node.inputs.back())],
                                    static_cast<float>(ops::pointwise_parameter(node.attrs))});
    program.instructions.back().rounds = graph.type(node.outputs[0]).dtype == DType::kBF16;
  }
  for (ValueId output : graph.outputs)
    program.outputs.push_back(registers[static_cast<size_t>(output)]);
  return bind_program(call, program, graph.shape(graph.outputs[0]));
}

bool any_layout(const Call&, int, const Layout&) { return true; }

}  // namespace

const CpuKernel& pointwise_kernel() {
  static const CpuKernel kernel{.op = "",
                                .bind = bind,
                                .takes_input = any_layout,
                                .takes_output = any_layout,
                                .in_place = true};
  return kernel;
}

const CpuKernel& generated_pointwise_kernel() {
  static const CpuKernel kernel{.op = "generated_pointwise",
                                .bind = bind_generated,
                                .takes_input = any_layout,
                                .takes_output = any_layout,
                                .in_place = true};
  return kernel;
}

}  // namespace ridge::backends::cpu
