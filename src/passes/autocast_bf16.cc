// SPDX-License-Identifier: Apache-2.0
// autocast_bf16: runs activations and GEMMs in bf16 with fp32 master weights. A GEMM's weight is
// cast once per step. Norms keep fp32 weights and statistics; the loss and the logits that are
// sampled from stay fp32. KV caches are bf16 too.
#include <functional>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "graph/rewriter.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

class Autocast {
 public:
  explicit Autocast(const Graph& graph) : graph_(graph), users_(graph.users()) {}

  bool operator()(Rewriter& rewriter, NodeId id) {
    Node node = graph_.node(id);
    Builder& b = rewriter.builder();
    auto derive = b.derive(node);
    std::vector<ValueId> inputs = rewriter.map(node.inputs);
    if (is_a(node, ops::embedding_op())) node.attrs.set("dtype", std::string(name(DType::kBF16)));
    if (is_a(node, ops::matmul_op()))
      for (size_t i = 0; i < inputs.size(); ++i) {
        expect_castable(node.inputs[i]);
        inputs[i] = narrow(b, node.inputs[i], inputs[i]);
      }
    if (is_a(node, ops::matmul_op()) && is_sampled(node.outputs[0]))
      node.attrs.set("dtype", std::string(name(DType::kF32)));
    if (node.op->kind == OpKind::kPointwise && inputs.size() == 2 &&
        b.type(inputs[0]).dtype != b.type(inputs[1]).dtype)  // a bias
      for (size_t i = 0; i < 2; ++i) inputs[i] = narrow(b, node.inputs[i], inputs[i]);
    std::vector<ValueId> made = b.call_all(node.op->name, inputs, node.attrs);
    for (size_t i = 0; i < made.size(); ++i) rewriter.retype(node.outputs[i], made[i]);
    return true;
  }

 private:
  // No kernel multiplies bf16 activations with f16 weights, as files may store them.
  void expect_castable(ValueId operand) const {
    if (graph_.type(operand).dtype == DType::kF16)
      throw usage_error(
          "[autocast_bf16] GEMMs in bf16 take weights in f32, bf16 or blocks, but {} is stored in "
          "f16; expected +store_bf16 or +store_f32",
          printable(graph_.value(operand).name));
  }

  // One cast per weight, however many GEMMs read it.
  ValueId narrow(Builder& b, ValueId old_value, ValueId value) {
    if (b.type(value).dtype != DType::kF32) return value;
    auto [found, is_new] = narrowed_.try_emplace(old_value, kNoValue);
    if (is_new) found->second = ops::cast(b, value, DType::kBF16);
    return found->second;
  }

  bool is_sampled(ValueId logits) const {
    for (NodeId user : users_[static_cast<size_t>(logits)])
      if (is_a(graph_.node(user), ops::sample_op())) return true;
    return false;
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::map<ValueId, ValueId> narrowed_;
};

Graph with_narrow_caches(const Graph& graph) {
  Graph result = graph;
  for (const Node& node : graph.nodes)
    if (is_a(node, ops::kv_append_op()))
      for (size_t cache : {size_t{0}, size_t{1}})
        result.value(node.inputs[cache]).type.dtype = DType::kBF16;
  return result;
}

}  // namespace

Graph run_autocast_bf16(const Graph& graph, PassContext& context) {
  Graph narrow = with_narrow_caches(graph);
  Autocast autocast(narrow);
  return Rewriter(narrow, context.ops).run(std::ref(autocast));
}

}  // namespace ridge::passes
