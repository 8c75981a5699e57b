// SPDX-License-Identifier: Apache-2.0
// fuse_softmax: scales and masks the scores of attention over a KV cache in the kernel of their
// softmax, as a compiler puts pointwise operations before a reduction into its kernel.
#include <array>

#include "graph/rewrite_rule.h"
#include "ops/pointwise.h"
#include "ops/registry.h"
#include "passes/nodes.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Pattern softmax_of_masked() {
  Pattern scaled = node_of(ops::pointwise_op(Pointwise::kScale), {any("scores")});
  Pattern masked =
      node_of(ops::cached_mask_op(), {std::move(scaled).as("scaled").once(), any("positions")});
  return node_of(ops::softmax_op(), {std::move(masked).as("masked").once()});
}

NewNode cached_softmax_of(const Match& match) {
  const Attrs& mask = match.node("masked").attrs;
  return {"cached_softmax",
          {match.value("scores"), match.value("positions")},
          {{"window", mask.integer("window")},
           {"ring", mask.integer("ring")},
           {"scale", ops::pointwise_parameter(match.node("scaled").attrs)}}};
}

void replace_softmax(Rewriter& rewriter, const Match& match) {
  const Node& softmax = match.root();
  auto derive = rewriter.builder().derive(match.from(), softmax.scope, softmax.phase);
  rewriter.replace_all(softmax.outputs, append(rewriter, cached_softmax_of(match)));
}

}  // namespace

Graph run_fuse_softmax(const Graph& graph, PassContext& context) {
  auto runs = [&](const Match& match) {
    return ops::pointwise_parameter(match.node("scaled").attrs) > 0 &&
           runs_on_target(context, graph, cached_softmax_of(match));
  };
  return rewrite(graph, context.ops,
                 std::array{RewriteRule{softmax_of_masked(), runs, replace_softmax}});
}

}  // namespace ridge::passes
