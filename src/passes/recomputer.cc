// SPDX-License-Identifier: Apache-2.0
// Follows each operand of the backward pass back to the values that are kept.
#include "passes/recomputer.h"

#include <charconv>
#include <utility>
#include <vector>

namespace ridge::passes {
namespace {

constexpr std::string_view kLayer = "layer.";

// The node that made the value in the forward pass, or null.
const Node* forward_producer(const Graph& graph, ValueId value) {
  const Node* producer = graph.producer(value);
  return producer != nullptr && producer->phase == Phase::kForward ? producer : nullptr;
}

}  // namespace

std::string layer_of(const Node& node) {
  if (!node.scope.starts_with(kLayer)) return "";
  return node.scope.substr(0, node.scope.find('/'));
}

int64_t layer_number(const std::string& layer) {
  int64_t number = 0;
  std::from_chars(layer.data() + kLayer.size(), layer.data() + layer.size(), number);
  return number;
}

Recomputer::Recomputer(const Graph& graph, PartOf part, PartOf segment)
    : graph_(graph), part_(std::move(part)), segment_(std::move(segment)) {}

Graph Recomputer::run(const OpTable& ops) {
  return Rewriter(graph_, ops).run([this](Rewriter& rewriter, NodeId id) {
    return visit(rewriter, id);
  });
}

bool Recomputer::visit(Rewriter& rewriter, NodeId id) {
  const Node& node = graph_.node(id);
  if (node.phase != Phase::kBackward) return false;
  bool any = false;
  std::vector<ValueId> inputs;
  for (ValueId input : node.inputs) {
    inputs.push_back(again(rewriter, node, input));
    any = any || inputs.back() != rewriter.map(input);
  }
  if (!any) return false;
  auto derive = rewriter.builder().derive(node);
  rewriter.replace_all(node.outputs,
                       rewriter.builder().call_all(node.op->name, inputs, node.attrs));
  return true;
}

ValueId Recomputer::again(Rewriter& rewriter, const Node& reader, ValueId value) {
  const Node* producer = forward_producer(graph_, value);
  if (producer == nullptr) return rewriter.map(value);
  const std::string part = part_(*producer);
  if (part.empty()) return rewriter.map(value);
  if (part_(reader) != part) return chained(rewriter, reader, value);
  if (auto found = again_.find(value); found != again_.end()) return found->second;
  std::vector<ValueId> inputs;
  for (ValueId input : producer->inputs) inputs.push_back(again(rewriter, *producer, input));
  return make(rewriter, *producer, value, std::move(inputs), again_);
}

ValueId Recomputer::chained(Rewriter& rewriter, const Node& reader, ValueId value) {
  const Node* producer = forward_producer(graph_, value);
  if (producer == nullptr) return rewriter.map(value);
  const std::string segment = segment_(*producer);
  if (segment.empty() || segment_(reader) != segment) return rewriter.map(value);
  if (auto found = chained_.find(value); found != chained_.end()) return found->second;
  std::vector<ValueId> inputs;
  for (ValueId input : producer->inputs) inputs.push_back(chained(rewriter, *producer, input));
  return make(rewriter, *producer, value, std::move(inputs), chained_);
}

ValueId Recomputer::make(Rewriter& rewriter,
                         const Node& producer,
                         ValueId value,
                         std::vector<ValueId> inputs,
                         Made& made) {
  auto derive = rewriter.builder().derive(producer.from, producer.scope, Phase::kBackward);
  const std::vector<ValueId> outputs =
      rewriter.builder().call_all(producer.op->name, std::move(inputs), producer.attrs);
  for (size_t i = 0; i < outputs.size(); ++i) made[producer.outputs[i]] = outputs[i];
  return made.at(value);
}

}  // namespace ridge::passes
