// SPDX-License-Identifier: Apache-2.0
// fuse_softmax_cross_entropy: computes the loss from logits in one kernel, which never writes
// probabilities.
#include "ops/registry.h"
#include "passes/nodes.h"
#include "passes/passes.h"

namespace ridge::passes {

Graph run_fuse_softmax_cross_entropy(const Graph& graph, PassContext&) {
  return keep_whole(graph, ops::softmax_cross_entropy_op());
}

}  // namespace ridge::passes
