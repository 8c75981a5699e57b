// SPDX-License-Identifier: Apache-2.0
// fuse_rms_norm: computes an RMSNorm in one kernel, together with the residual add before it if
// there is one.
#include <algorithm>
#include <array>

#include "graph/rewrite_rule.h"
#include "ops/pointwise.h"
#include "ops/registry.h"
#include "passes/nodes.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Pattern normed_sum() {
  Pattern sum = node_of(ops::pointwise_op(Pointwise::kAdd), {any("x"), any("y")});
  return node_of(ops::rms_norm_op(), {std::move(sum).as("sum"), any("weight")});
}

// Another reader may norm the sum too. Then neither norm is fused with it.
bool is_normed_once(const Match& match) {
  const std::vector<NodeId>& readers = match.readers("sum");
  return std::count_if(readers.begin(), readers.end(), [&](NodeId id) {
           const Node& node = match.graph().node(id);
           return is_a(node, ops::rms_norm_op()) && node.inputs[0] == match.value("sum");
         }) == 1;
}

void replace_sum_and_norm(Rewriter& rewriter, const Match& match) {
  const Node& norm = match.root();
  auto derive = rewriter.builder().derive(match.from(), norm.scope, norm.phase);
  std::vector<ValueId> made = rewriter.builder().call_all(
      "add_rms_norm", rewriter.map(match.values({"x", "y", "weight"})),
      {{"eps", norm.attrs.real("eps")}, {"offset", norm.attrs.real("offset")}});
  rewriter.replace_all(std::array{match.value("sum"), norm.outputs[0], norm.outputs[1]}, made);
}

}  // namespace

Graph run_fuse_rms_norm(const Graph& graph, PassContext& context) {
  const std::array rules = {RewriteRule{normed_sum(), is_normed_once, replace_sum_and_norm, "sum"},
                            keep_whole_rule(ops::rms_norm_op())};
  return rewrite(graph, context.ops, rules);
}

}  // namespace ridge::passes
