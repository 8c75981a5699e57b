// SPDX-License-Identifier: Apache-2.0
// Runs a graph in double precision by its ops' references, without kernels, planner or rounding.
// Element types are kept, but values are never rounded to them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"

namespace ridge::ops {

using NamedTensors = std::map<std::string, Tensor64>;

class ReferenceRun {
 public:
  // Changes a value before other nodes read it.
  using Disturbance = std::function<void(Tensor64&)>;

  // `named` must hold every value of the graph without a producer.
  ReferenceRun(const Graph& graph, const NamedTensors& named, Disturbance disturbance = {})
      : graph_(graph), values_(graph.values.size()), disturbance_(std::move(disturbance)) {
    for (size_t i = 0; i < values_.size(); ++i) {
      const Value& value = graph.values[i];
      values_[i].type = value.type;
      if (value.producer != kNoNode) continue;
      auto found = named.find(value.name);
      RIDGE_CHECK(found != named.end(), "the test gives no '{}'", value.name);
      values_[i].data = found->second.data;
      RIDGE_CHECK(static_cast<int64_t>(values_[i].data.size()) == value.type.shape.elements(),
                  "'{}' is {}", value.name, value.type.str());
      if (disturbance_) disturbance_(values_[i]);
    }
    for (const Node& node : graph.nodes) run(node);
  }

  const std::vector<double>& operator[](ValueId value) const { return at(value).data; }
  const Tensor64& at(ValueId value) const { return values_[static_cast<size_t>(value)]; }
  std::vector<Tensor64> outputs() const {
    std::vector<Tensor64> outputs;
    for (ValueId output : graph_.outputs) outputs.push_back(at(output));
    return outputs;
  }

  // Named values after the run, each in its last version.
  NamedTensors stored() const {
    std::vector<ValueId> root(values_.size(), kNoValue);
    NamedTensors stored;
    for (size_t i = 0; i < values_.size(); ++i) {
      if (graph_.values[i].producer != kNoNode) continue;
      root[i] = static_cast<ValueId>(i);
      stored[graph_.values[i].name] = values_[i];
    }
    for (const Node& node : graph_.nodes)
      for (const Alias& alias : aliases(graph_, node)) {
        size_t output = static_cast<size_t>(node.outputs[static_cast<size_t>(alias.output)]);
        root[output] = root[static_cast<size_t>(node.inputs[static_cast<size_t>(alias.input)])];
        if (root[output] != kNoValue)
          stored[graph_.value(root[output]).name].data = values_[output].data;
      }
    return stored;
  }

 private:
  void run(const Node& node) {
    RIDGE_CHECK(node.op->reference != nullptr, "'{}' has no reference", node.op->name);
    CallTypes types(graph_, node);
    std::vector<const Tensor64*> inputs;
    for (ValueId input : node.inputs) inputs.push_back(&at(input));
    std::vector<Tensor64> outputs;
    for (const Type& type : types.outputs)
      outputs.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.elements()))});
    node.op->reference(types.call(), inputs, outputs);
    if (disturbance_ && node.op->kind != OpKind::kView)
      for (Tensor64& output : outputs) disturbance_(output);
    for (size_t i = 0; i < outputs.size(); ++i)
      values_[static_cast<size_t>(node.outputs[i])] = std::move(outputs[i]);
  }

  const Graph& graph_;
  std::vector<Tensor64> values_;
  Disturbance disturbance_;
};

}  // namespace ridge::ops
