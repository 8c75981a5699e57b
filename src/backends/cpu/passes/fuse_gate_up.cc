// SPDX-License-Identifier: Apache-2.0
// fuse_gate_up: one kernel multiplies with the quantized weights of gate and up and computes their
// GLU, so that both products stay in a core's caches. merge_gate_up and fuse_glu handle weights
// that can be stacked.
#include <array>

#include "backends/cpu/passes/passes.h"
#include "graph/rewrite_rule.h"
#include "ops/registry.h"
#include "passes/nodes.h"

namespace ridge::backends::cpu {
namespace {

// `gate` is the first weight of the group, or the second.
Pattern glu_of_group(size_t gate) {
  return node_of(ops::glu_op(), {node_of(ops::quantized_matmul_op()).output(gate).as("gate").once(),
                                 output_of("gate", 1 - gate).once()});
}

passes::NewNode fused(const Match& match) {
  const Node& group = match.node("gate");
  const bool is_first = group.outputs[0] == match.value("gate");
  passes::NewNode made{
      "quantized_matmul",
      {group.inputs[0], group.inputs[is_first ? 1 : 2], group.inputs[is_first ? 2 : 1]},
      group.attrs};
  made.attrs.set("glu", match.root().attrs.text("activation"));
  return made;
}

}  // namespace

Graph run_fuse_gate_up(const Graph& graph, passes::PassContext& context) {
  const auto holds = [&](const Match& match) {
    return match.node("gate").outputs.size() == 2 &&
           passes::runs_on_target(context, graph, fused(match));
  };
  const auto replace = [](Rewriter& rewriter, const Match& match) {
    const Node& glu = match.root();
    auto derive = rewriter.builder().derive(match.from(), glu.scope, glu.phase);
    rewriter.replace_all(glu.outputs, passes::append(rewriter, fused(match)));
  };
  const std::array rules = {RewriteRule{glu_of_group(0), holds, replace},
                            RewriteRule{glu_of_group(1), holds, replace}};
  return rewrite(graph, context.ops, rules);
}

}  // namespace ridge::backends::cpu
