// SPDX-License-Identifier: Apache-2.0
// train_tensor_parallel: ranks train a model together, each with its heads, columns and part of the
// vocabulary. shard_tensor_parallel.cc has the cuts.
#include "passes/passes.h"
#include "passes/tensor_shards.h"

namespace ridge::passes {

Graph run_train_tensor_parallel(const Graph& graph, PassContext& context) {
  return shard_model(graph, context, true);
}

}  // namespace ridge::passes
