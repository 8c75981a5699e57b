// SPDX-License-Identifier: Apache-2.0
// generated_pointwise (put there by generate_pointwise): a cluster of pointwise ops as one kernel. Its program is a
// nested graph: inputs named "0", "1", ... in the order of the node's inputs, all of one shape, pointwise nodes only.
#include <map>
#include <vector>

#include "ops/build.h"
#include "ops/infer.h"
#include "ops/pointwise.h"

namespace ridge::ops {
namespace {

const Graph& program(const Call& call) { return call.attrs.nested("program"); }

std::vector<Type> infer(const Call& call) {
  const Graph& graph = program(call);
  size_t inputs = 0;
  for (const Value& value : graph.values) {
    if (value.producer != kNoNode) continue;
    size_t at = static_cast<size_t>(std::stoul(value.name));
    RIDGE_CHECK(at < call.inputs.size() && value.type == call.inputs[at], "program input {} is {}", value.name,
                value.type.str());
    ++inputs;
  }
  RIDGE_CHECK(inputs == call.inputs.size(), "{} program inputs for {} operands", inputs, call.inputs.size());
  std::vector<Type> outputs;
  for (ValueId output : graph.outputs) outputs.push_back(graph.type(output));
  return outputs;
}

Work work(const Call& call) {
  Work total;
  for (const Node& node : program(call).nodes) total += node.op->work(CallTypes(program(call), node).call());
  return total;
}

void reference(const Call& call, std::span<const Tensor64* const> inputs, std::span<Tensor64> outputs) {
  const Graph& graph = program(call);
  std::vector<Tensor64> values(graph.values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].type = graph.values[i].type;
    if (graph.values[i].producer == kNoNode) values[i].data = inputs[std::stoul(graph.values[i].name)]->data;
    else values[i].data.resize(static_cast<size_t>(values[i].type.shape.elements()));
  }
  for (const Node& node : graph.nodes) {
    std::vector<const Tensor64*> in;
    for (ValueId input : node.inputs) in.push_back(&values[static_cast<size_t>(input)]);
    Tensor64& out = values[static_cast<size_t>(node.outputs[0])];
    node.op->reference(CallTypes(graph, node).call(), in, {&out, 1});
  }
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i].data = values[static_cast<size_t>(graph.outputs[i])].data;
}

}  // namespace

const Op& generated_pointwise_op() {
  // Random programs test it (tests/backends): cases of its own would only repeat them.
  static const Op op{.name = "generated_pointwise",
                     .kind = OpKind::kFused,
                     .min_inputs = 0,
                     .max_inputs = -1,
                     .attrs = {{"program", NestedGraph()}},
                     .formula = "the sum over its program's nodes",
                     .infer = infer,
                     .work = work,
                     .reference = reference};
  return op;
}

}  // namespace ridge::ops
