// SPDX-License-Identifier: Apache-2.0
// fuse_glu: activation and product of a gated feed-forward layer in one kernel.
#include "ops/registry.h"
#include "passes/keep_whole.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

Graph run(const Graph& graph, PassContext&) { return keep_whole(graph, ops::glu_op()); }

}  // namespace

constinit const Pass fuse_glu_pass{"fuse_glu",
                                   Stage::kForward,
                                   Serves::kBoth,
                                   "fuse the activation and the multiplication of the gated MLP",
                                   "",
                                   run};

}  // namespace ridge::passes
