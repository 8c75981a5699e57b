// SPDX-License-Identifier: Apache-2.0
// Runs activations and GEMMs in 16 bits with fp32 master weights. A GEMM's weight is cast once per
// step. Norms keep fp32 weights and statistics; the loss and the logits that are sampled from stay
// fp32. KV caches have the narrow type too, unless they hold quants.
#include "passes/dtypes.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "graph/rewriter.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::passes {
namespace {

class Autocast {
 public:
  Autocast(const Graph& graph, DType narrow)
      : graph_(graph), narrow_(narrow), users_(graph.users()) {}

  bool operator()(Rewriter& rewriter, NodeId id) {
    Node node = graph_.node(id);
    Builder& b = rewriter.builder();
    auto derive = b.derive(node);
    std::vector<ValueId> inputs = rewriter.map(node.inputs);
    if (is_a(node, ops::embedding_op()) || is_a(node, ops::receive_op()))
      node.attrs.set("dtype", std::string(name(narrow_)));
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
  // Files may store weights of either 16-bit type, but no kernel multiplies them with activations
  // of the other one.
  void expect_castable(ValueId operand) const {
    const DType stored = graph_.type(operand).dtype;
    if (is_block(stored) || stored == DType::kF32 || stored == narrow_) return;
    throw usage_error(
        "[autocast_{0}] GEMMs in {0} take weights in f32, {0} or blocks, but {1} is stored in {2}; "
        "expected {3}+store_f32",
        name(narrow_), printable(graph_.value(operand).name), name(stored),
        narrow_ == DType::kBF16 ? "+store_bf16 or " : "");
  }

  // One cast per weight, however many GEMMs read it.
  ValueId narrow(Builder& b, ValueId old_value, ValueId value) {
    if (b.type(value).dtype != DType::kF32) return value;
    auto [found, is_new] = narrowed_.try_emplace(old_value, kNoValue);
    if (is_new) found->second = ops::cast(b, value, narrow_);
    return found->second;
  }

  // A padded vocabulary is sliced before it is sampled, and parts of ranks are gathered.
  bool is_sampled(ValueId logits) const {
    return std::ranges::any_of(users_[static_cast<size_t>(logits)], [&](NodeId id) {
      const Node& user = graph_.node(id);
      return is_a(user, ops::sample_op()) ||
             ((is_a(user, ops::slice_op()) || is_a(user, ops::all_gather_op())) &&
              is_sampled(user.outputs[0]));
    });
  }

  const Graph& graph_;
  DType narrow_;
  std::vector<std::vector<NodeId>> users_;
  std::map<ValueId, ValueId> narrowed_;
};

Graph with_narrow_caches(const Graph& graph, DType narrow) {
  Graph result = graph;
  for (const Node& node : graph.nodes)
    if (is_a(node, ops::kv_append_op()))
      for (size_t cache : {size_t{0}, size_t{1}})
        if (DType& dtype = result.value(node.inputs[cache]).type.dtype; is_float(dtype))
          dtype = narrow;
  return result;
}

}  // namespace

Graph autocast(DType narrow, const Graph& graph, PassContext& context) {
  const Graph cached = with_narrow_caches(graph, narrow);
  Autocast rewrite(cached, narrow);
  return Rewriter(cached, context.ops).run(std::ref(rewrite));
}

}  // namespace ridge::passes
