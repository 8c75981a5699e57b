// SPDX-License-Identifier: Apache-2.0
// merge_gate_up: merges the gate and up projections of a gated feed-forward layer into one GEMM.
#include "ops/registry.h"
#include "passes/merge_products.h"
#include "passes/passes.h"

namespace ridge::passes {

Graph run_merge_gate_up(const Graph& graph, PassContext& context) {
  const Pattern pattern =
      node_of(ops::glu_op(), {projection_behind("gate"), projection_behind("up")});
  return merge_products(graph, context, {pattern, {"gate", "up"}, "gate_up_proj"});
}

}  // namespace ridge::passes
