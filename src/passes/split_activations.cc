// SPDX-License-Identifier: Apache-2.0
// split_activations: one node for each operation of silu and of the tanh GELU, as in an eager
// framework without fused activations. The count of FLOPs stays the same (base/pointwise.cc).
#include <array>

#include "base/pointwise.h"
#include "graph/rewrite_rule.h"
#include "ops/build.h"
#include "ops/pointwise.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

// 0.5 x (1 + tanh(x (s + s c x^2)))
ValueId split_gelu_tanh(Builder& b, ValueId x) {
  ValueId square = ops::unary(b, "square", x);
  ValueId slope =
      ops::add_scalar(b, ops::scale(b, square, kGeluTanhScale * kGeluTanhCubic), kGeluTanhScale);
  ValueId shifted = ops::add_scalar(b, ops::unary(b, "tanh", ops::mul(b, x, slope)), 1);
  return ops::scale(b, ops::mul(b, x, shifted), 0.5);
}

// x / (1 + exp(-x))
ValueId split_silu(Builder& b, ValueId x) {
  ValueId divisor = ops::add_scalar(b, ops::unary(b, "exp", ops::unary(b, "neg", x)), 1);
  return b.call("div", {x, divisor});
}

template <ValueId (*kSplit)(Builder&, ValueId)>
void replace_activation(Rewriter& rewriter, const Match& match) {
  const Node& node = match.root();
  auto derive = rewriter.builder().derive(node);
  rewriter.replace(node.outputs[0], kSplit(rewriter.builder(), rewriter.map(node.inputs[0])));
}

}  // namespace

Graph run_split_activations(const Graph& graph, PassContext& context) {
  const std::array rules = {
      RewriteRule{node_of(ops::pointwise_op(Pointwise::kGeluTanh)),
                  {},
                  replace_activation<split_gelu_tanh>},
      RewriteRule{
          node_of(ops::pointwise_op(Pointwise::kSilu)), {}, replace_activation<split_silu>}};
  return rewrite(graph, context.ops, rules);
}

}  // namespace ridge::passes
