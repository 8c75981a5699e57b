// SPDX-License-Identifier: Apache-2.0
// merge_gate_up: the gate and up projections of a gated feed-forward layer become one GEMM.
#include "ops/registry.h"
#include "passes/merge_products.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Graph run(const Graph& graph, PassContext& context) {
  const Pattern pattern =
      node_of(ops::glu_op(), {projection_behind("gate"), projection_behind("up")});
  return merge_products(graph, context, {pattern, {"gate", "up"}, "gate_up_proj"});
}

}  // namespace

constinit const Pass merge_gate_up_pass{"merge_gate_up",
                                        Stage::kForward,
                                        Serves::kBoth,
                                        "merge the gate and up projections into one GEMM",
                                        "",
                                        run};

}  // namespace ridge::passes
