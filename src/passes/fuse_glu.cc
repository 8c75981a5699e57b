// SPDX-License-Identifier: Apache-2.0
// fuse_glu: computes the activation and the product of a gated feed-forward layer in one kernel.
#include "ops/registry.h"
#include "passes/nodes.h"
#include "passes/passes.h"

namespace ridge::passes {

Graph run_fuse_glu(const Graph& graph, PassContext&) { return keep_whole(graph, ops::glu_op()); }

}  // namespace ridge::passes
