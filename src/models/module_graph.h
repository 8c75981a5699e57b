// SPDX-License-Identifier: Apache-2.0
// Builds the graph of one module of a configuration, alone: an MLP, an attention, a norm, a layer,
// the embedding or the head.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "models/forward_graph.h"

namespace ridge::models {

enum class Module : uint8_t { kMlp, kAttention, kNorm, kLayer, kEmbedding, kHead };
std::string_view name(Module module);
std::optional<Module> parse_module(std::string_view name);
inline constexpr std::string_view kModuleNames = "mlp, attention, norm, layer, embedding, head";

struct ModuleShape {
  int64_t batch = 1;   // sequences
  int64_t tokens = 1;  // so many of each sequence are computed: 1 in decode
  // Keys in the cache, with those of these tokens; 0: whole sequences, without a cache.
  int64_t context = 0;
  int64_t layer = 0;         // a window layer attends to its window
  bool is_last_row = false;  // the head: for the last token of each sequence alone
  DType activations = DType::kF32;
};

// Inputs: x [N,D] in the type of activations (the embedding: ids i32[N]), and for attention
// positions i32[N], slots i32[N] and the block table. The parameters are those of the layer, as
// `weights` says. Outputs: [N,D], of the head [M,V].
//   mlp        gate, up, activation, product, down; no norm and no residual
//   attention  q, k, v, norms of the heads, rotation, attention, o; no input norm and no residual
//   norm       the RMSNorm before attention
//   layer      all of a layer
// Throws usage Errors for extents out of range.
ForwardGraph build_module(const ModelConfig& config,
                          const OpTable& ops,
                          Module module,
                          const ModuleShape& shape,
                          const WeightLookup& weights);

}  // namespace ridge::models
