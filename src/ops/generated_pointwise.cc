// SPDX-License-Identifier: Apache-2.0
// generated_pointwise, made by the pass generate_pointwise: a cluster of pointwise ops as one
// kernel. Its program is a nested graph: inputs named "0", "1", ... in the order of the node's
// inputs, all of one shape, pointwise nodes only.
#include <charconv>
#include <vector>

#include "ops/op_from.h"
#include "ops/pointwise.h"

namespace ridge::ops {
namespace {

const Graph& program(const Call& call) { return call.attrs.nested("program"); }

// The number of an input named "0" to "operands - 1". Checked, because the program may come from a
// text.
size_t operand_named(const std::string& name, size_t operands) {
  size_t number = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc() || end != name.data() + name.size() || number >= operands)
    throw usage_error("[generated_pointwise] expected program inputs named 0 to {}, got '{}'",
                      operands - 1, name);
  return number;
}

void check_program(const Graph& graph, const Shape& shape) {
  for (const Value& value : graph.values)
    if (value.type.shape != shape)
      throw usage_error("[generated_pointwise] expected one shape {}, got {}", shape.str(),
                        value.type.str());
  for (const Node& node : graph.nodes)
    if (node.op->kind != OpKind::kPointwise)
      throw usage_error("[generated_pointwise] expected pointwise ops, got '{}'", node.op->name);
}

struct GeneratedPointwiseOp {
  static Op declaration() {
    // Tests use random programs (tests/backends); cases of its own would only repeat them.
    return {.name = "generated_pointwise",
            .category = OpCategory::kElementwise,
            .kind = OpKind::kFused,
            .operands = {0, kAnyNumber},
            .attrs = {{"program", NestedGraph()}},
            .time_law = TimeLaw::kAccessPattern,
            .formula = "the sum over its program's nodes"};
  }

  static std::vector<Type> infer(const Call& call) {
    if (std::get<NestedGraph>(*call.attrs.find("program")) == nullptr ||
        program(call).outputs.empty())
      throw usage_error("[generated_pointwise] expected a program with a result");
    const Graph& graph = program(call);
    size_t inputs = 0;
    for (const Value& value : graph.values) {
      if (value.producer != kNoNode) continue;
      size_t at = operand_named(value.name, call.inputs.size());
      expect_type("generated_pointwise", value.type, call.inputs[at],
                  "program input " + value.name);
      ++inputs;
    }
    if (inputs != call.inputs.size())
      throw usage_error("[generated_pointwise] expected {} program inputs, got {}",
                        call.inputs.size(), inputs);
    check_program(graph, graph.shape(graph.outputs[0]));
    std::vector<Type> outputs;
    for (ValueId output : graph.outputs) outputs.push_back(graph.type(output));
    return outputs;
  }

  static Work work(const Call& call) {
    Work total;
    for (const Node& node : program(call).nodes)
      total += node.op->work(CallTypes(program(call), node).call());
    return total;
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const Graph& graph = program(call);
    std::vector<Tensor64> values(graph.values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i].type = graph.values[i].type;
      if (graph.values[i].producer == kNoNode)
        values[i].data = inputs[std::stoul(graph.values[i].name)]->data;
      else
        values[i].data.resize(static_cast<size_t>(values[i].type.shape.elements()));
    }
    for (const Node& node : graph.nodes) {
      std::vector<const Tensor64*> in;
      for (ValueId input : node.inputs) in.push_back(&values[static_cast<size_t>(input)]);
      Tensor64& out = values[static_cast<size_t>(node.outputs[0])];
      node.op->reference(CallTypes(graph, node).call(), in, {&out, 1});
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      outputs[i].data = values[static_cast<size_t>(graph.outputs[i])].data;
  }
};

}  // namespace

const Op& generated_pointwise_op() { return op_from<GeneratedPointwiseOp>(); }

}  // namespace ridge::ops
