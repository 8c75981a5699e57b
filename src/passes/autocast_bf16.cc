// SPDX-License-Identifier: Apache-2.0
// autocast_bf16: activations and products in bf16 with fp32 masters. Weights of products are cast
// once a step; norms keep fp32 weights and statistics, the loss is fp32.
#include <map>

#include "graph/rewriter.h"
#include "ops/build.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

class Autocast {
 public:
  explicit Autocast(const Graph& graph) : graph_(graph) {}

  bool visit(Rewriter& rewriter, NodeId id) {
    Node node = graph_.node(id);
    Builder& b = rewriter.builder();
    auto derive = b.derive(node);
    std::vector<ValueId> inputs = rewriter.map(node.inputs);
    if (node.op->name == "embedding") node.attrs.set("dtype", std::string(name(DType::kBF16)));
    if (node.op->name == "matmul")
      for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = narrow(b, node.inputs[i], inputs[i]);
    std::vector<ValueId> made = b.call_all(node.op->name, inputs, node.attrs);
    for (size_t i = 0; i < made.size(); ++i) rewriter.retype(node.outputs[i], made[i]);
    return true;
  }

 private:
  // One cast a weight, however many products read it.
  ValueId narrow(Builder& b, ValueId old_value, ValueId value) {
    if (b.type(value).dtype != DType::kF32) return value;
    auto [found, is_new] = narrowed_.try_emplace(old_value, kNoValue);
    if (is_new) found->second = ops::cast(b, value, DType::kBF16);
    return found->second;
  }

  const Graph& graph_;
  std::map<ValueId, ValueId> narrowed_;
};

Graph run(const Graph& graph, PassContext& context) {
  Autocast autocast(graph);
  return Rewriter(graph, context.ops).run([&](Rewriter& rewriter, NodeId id) {
    return autocast.visit(rewriter, id);
  });
}

}  // namespace

const Pass& autocast_bf16_pass() {
  static const Pass pass{"autocast_bf16", Stage::kForward,
                         "activations and products in bf16, masters in fp32",
                         "precision: the loss stays within 0.02 of fp32's", run};
  return pass;
}

}  // namespace ridge::passes
