// SPDX-License-Identifier: Apache-2.0
// recompute: each layer, or each of the first ones, keeps only its input; its backward pass computes
// the layer's activations again.
#include <charconv>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "graph/rewriter.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

constexpr std::string_view kLayer = "layer.";

// "layer.3" for "layer.3/attention"; empty outside of layers.
std::string block_of(const Node& node) {
  if (!node.scope.starts_with(kLayer)) return "";
  return node.scope.substr(0, node.scope.find('/'));
}

int64_t number_of(const std::string& block) {
  int64_t number = 0;
  std::from_chars(block.data() + kLayer.size(), block.data() + block.size(), number);
  return number;
}

class Recomputer {
 public:
  // Only the first `layers`: their backward passes come last, when the activations of the layers
  // after them are gone.
  Recomputer(const Graph& graph, int64_t layers) : graph_(graph), layers_(layers) {}

  bool operator()(Rewriter& rewriter, NodeId id) {
    const Node& node = graph_.node(id);
    if (node.phase != Phase::kBackward) return false;
    Node copy = node;
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

 private:
  // The value that a node in the backward pass reads in place of `value`. If the forward pass made
  // it inside the reader's layer, it is computed again.
  ValueId again(Rewriter& rewriter, const Node& reader, ValueId value) {
    const Node* producer = graph_.producer(value);
    if (producer == nullptr || producer->phase != Phase::kForward) return rewriter.map(value);
    std::string block = block_of(*producer);
    // A value that is read outside its layer is kept: it is the next layer's input.
    if (block.empty() || block_of(reader) != block) return rewriter.map(value);
    if (number_of(block) >= layers_) return rewriter.map(value);
    auto found = again_.find(value);
    if (found != again_.end()) return found->second;
    std::vector<ValueId> inputs;
    for (ValueId input : producer->inputs) inputs.push_back(again(rewriter, *producer, input));
    auto derive = rewriter.builder().derive(producer->from, producer->scope, Phase::kBackward);
    std::vector<ValueId> made =
        rewriter.builder().call_all(producer->op->name, inputs, producer->attrs);
    for (size_t i = 0; i < made.size(); ++i) again_[producer->outputs[i]] = made[i];
    return again_.at(value);
  }

  const Graph& graph_;
  int64_t layers_;
  std::map<ValueId, ValueId> again_;
};

}  // namespace

Graph run_recompute(const Graph& graph, PassContext& context) {
  Recomputer recomputer(graph, context.number.value_or(std::numeric_limits<int64_t>::max()));
  return Rewriter(graph, context.ops).run(std::ref(recomputer));
}

}  // namespace ridge::passes
