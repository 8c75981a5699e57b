// SPDX-License-Identifier: Apache-2.0
// From a configuration to a forward graph, for training and for inference, whatever the family. The
// families themselves are llama.cc and gemma3.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/load_graph.h"
#include "models/cache_shape.h"
#include "models/config.h"

namespace ridge::models {

// The most tokens of one run: positions, rows and the extents that libraries take are 32 bits wide.
inline constexpr int64_t kMostTokens = INT32_MAX;

// A model's forward graph over N tokens.
struct ForwardGraph {
  Graph graph;
  LoadGraph load;
  ValueId logits = kNoValue;  // [N,V]; of an inference graph [S,V], a row for each slot
  ValueId loss = kNoValue;    // f32[], where there are labels
};

// A parameter as a file holds it.
struct StoredWeight {
  std::string name;
  DType dtype = DType::kF32;
};
// Parameters have Hugging Face's names. Throws a bad-file
// Error where the file lacks it or has another shape.
using WeightLookup = std::function<StoredWeight(const std::string& parameter, const Shape& shape)>;

// Inputs: ids i32[N], positions i32[N], labels i32[N]
// (-1 = not counted), with N = batch * sequence.
ForwardGraph build_training_graph(const ModelConfig& config,
                                  const OpTable& ops,
                                  int64_t batch,
                                  int64_t sequence);

// What an inference graph is for.
enum class InferenceTask : uint8_t {
  kPrefill,  // ids from the host, logits and a sampled token for
             // the rows that the host names, and nothing else
  kDecode,   // one token a slot, read from the state that sampling wrote
  kScore,    // ids and labels from the host: the mean negative log-likelihood, no logits
};

// A bucket: everything that a graph's shapes depend on.
struct InferenceShape {
  InferenceTask task = InferenceTask::kPrefill;
  int64_t tokens = 1;   // N; of decode the number of slots
  int64_t context = 1;  // bound on the keys that a token sees
  bool cached = true;   // else: one sequence of N tokens from position 0, without a cache
  CacheShape cache;
};

// Inputs, besides states (models/inference_names.h has all names):
//   ids, positions  i32[N]    position -1 is padding
//   slots, labels   i32[N]    where the task has them
//   rows            i32[S]    per slot the token whose logits are computed, -1 = none
//   next_positions  i32[S]    per slot the position of the token to sample, -1 = none
//   sampling        f32[S,5]  temperature, top-k, top-p, min-p, repeat penalty; 0 = off
//   seeds           i32[S]
//   block tables    i32[S,B]
ForwardGraph build_inference_graph(const ModelConfig& config,
                                   const OpTable& ops,
                                   const InferenceShape& shape,
                                   const WeightLookup& weights);

}  // namespace ridge::models
