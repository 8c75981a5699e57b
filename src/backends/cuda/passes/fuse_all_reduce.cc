// SPDX-License-Identifier: Apache-2.0
// fuse_all_reduce: a sum over the ranks, and the residual sum and norm that it goes into, become
// one kernel, if nothing else reads the sum over the ranks and the target has that kernel.
#include <array>

#include "backends/cuda/passes/passes.h"
#include "graph/rewrite_rule.h"
#include "ops/registry.h"
#include "passes/nodes.h"

namespace ridge::backends::cuda {
namespace {

Pattern normed_sum() {
  const auto sum = [] { return node_of(ops::all_reduce_op(), {any("x")}).as("sum").once(); };
  return either({node_of(ops::add_rms_norm_op(), {sum(), any("residual"), any("weight")}),
                 node_of(ops::add_rms_norm_op(), {any("residual"), sum(), any("weight")})});
}

passes::NewNode fused_sum_of(const Match& match) {
  const Attrs& sum = match.node("sum").attrs;
  passes::NewNode made{"all_reduce_add_rms_norm",
                       {match.value("x"), match.value("residual"), match.value("weight")},
                       {{"group", sum.text("group")}, {"ranks", sum.integer("ranks")}}};
  for (const char* name : {"eps", "offset"}) made.attrs.set(name, match.root().attrs.real(name));
  return made;
}

void replace_both(Rewriter& rewriter, const Match& match) {
  const Node& norm = match.root();
  auto derive = rewriter.builder().derive(match.from(), norm.scope, norm.phase);
  rewriter.replace_all(norm.outputs, passes::append(rewriter, fused_sum_of(match)));
}

}  // namespace

Graph run_fuse_all_reduce(const Graph& graph, passes::PassContext& context) {
  const auto runs = [&](const Match& match) {
    return !match.node("sum").attrs.flag("average") &&
           passes::runs_on_target(context, graph, fused_sum_of(match));
  };
  return rewrite(graph, context.ops, std::array{RewriteRule{normed_sum(), runs, replace_both}});
}

}  // namespace ridge::backends::cuda
