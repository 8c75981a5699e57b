// SPDX-License-Identifier: Apache-2.0
// The Llama family as a graph: RMSNorm, grouped-query attention with RoPE, SwiGLU, a tied or separate head.
#pragma once

#include <vector>

#include "graph/builder.h"
#include "graph/load_graph.h"
#include "models/config.h"

namespace ridge::models {

// A model's forward graph over N = batch * sequence tokens.
struct ForwardGraph {
  Graph graph;
  LoadGraph load;
  ValueId logits = kNoValue;           // [N,V]
  ValueId loss = kNoValue;             // f32[]
  std::vector<ValueId> parameters;     // in the order of the model
};

// Inputs: ids i32[N], positions i32[N], labels i32[N] (-1 = not counted).
ForwardGraph build_training_graph(const ModelConfig& config, const OpTable& ops, int64_t batch, int64_t sequence);

}  // namespace ridge::models
