// SPDX-License-Identifier: Apache-2.0
// Assigns a register to each input and each node.
#include "backends/bind/pointwise_program.h"

#include <string>
#include <vector>

#include "ops/pointwise.h"

namespace ridge::backends {

// A cast to a narrower type would round only values that leave the cluster. But other instructions
// must read the rounded value of a narrow result too.
PointwiseProgram pointwise_program(const Graph& cluster, size_t inputs) {
  PointwiseProgram program;
  program.registers = static_cast<int>(inputs);
  std::vector<int> registers(cluster.values.size(), -1);
  for (size_t i = 0; i < cluster.values.size(); ++i)
    if (cluster.values[i].producer == kNoNode) registers[i] = std::stoi(cluster.values[i].name);
  for (const Node& node : cluster.nodes) {
    int target = program.registers++;
    registers[static_cast<size_t>(node.outputs[0])] = target;
    program.instructions.push_back({ops::pointwise_function(*node.op), target,
                                    registers[static_cast<size_t>(node.inputs.front())],
                                    registers[static_cast<size_t>(node.inputs.back())],
                                    static_cast<float>(ops::pointwise_parameter(node.attrs))});
    program.instructions.back().stored_as = cluster.type(node.outputs[0]).dtype;
  }
  for (ValueId output : cluster.outputs)
    program.outputs.push_back(registers[static_cast<size_t>(output)]);
  return program;
}

}  // namespace ridge::backends
