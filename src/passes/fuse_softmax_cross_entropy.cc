// SPDX-License-Identifier: Apache-2.0
// fuse_softmax_cross_entropy: the loss from logits in one kernel, which never writes probabilities.
#include "ops/registry.h"
#include "passes/keep_whole.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Graph run(const Graph& graph, PassContext&) {
  return keep_whole(graph, ops::softmax_cross_entropy_op());
}

}  // namespace

constinit const Pass fuse_softmax_cross_entropy_pass{
    "fuse_softmax_cross_entropy",
    Stage::kForward,
    Serves::kBoth,
    "compute the loss in one kernel, without writing probabilities",
    "",
    run};

}  // namespace ridge::passes
