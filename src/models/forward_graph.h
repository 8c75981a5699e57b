// SPDX-License-Identifier: Apache-2.0
// Builds the forward graph of a configuration, for training or inference and for any family. The
// families' layers are in llama.cc and gemma3.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/load_graph.h"
#include "models/cache_shape.h"
#include "models/config.h"
#include "models/packing.h"

namespace ridge::models {

// The maximum number of tokens in one run, because positions, rows and the extents that libraries
// take are 32 bits wide.
inline constexpr int64_t kMostTokens = INT32_MAX;

// A model's forward graph over N tokens.
struct ForwardGraph {
  Graph graph;
  LoadGraph load;
  ValueId logits = kNoValue;  // [N,V]; in an inference graph [R,V], or [S,V] if it decodes
  ValueId loss = kNoValue;    // f32[], if there are labels
};

// A parameter as stored in a file.
struct StoredWeight {
  std::string name;
  DType dtype = DType::kF32;
  // The file's tensor i32[in] that says which column of x each column of the matrix is for; empty
  // if they are in x's order.
  std::string order = {};
};
// Looks up a parameter by its Hugging Face name. Throws a bad-file Error if the file lacks it or it
// has another shape.
using WeightLookup = std::function<StoredWeight(const std::string& parameter, const Shape& shape)>;

// Inputs: ids i32[N], positions i32[N], labels i32[N] (-1 = not counted), with
// N = batch * sequence. If documents are packed, several may share a row of `sequence` tokens:
// positions are those in the documents, and attention stays inside a document.
ForwardGraph build_training_graph(const ModelConfig& config,
                                  const OpTable& ops,
                                  int64_t batch,
                                  int64_t sequence,
                                  Packing packing = Packing::kNone);

// The task of an inference graph.
enum class InferenceTask : uint8_t {
  kPrefill,  // ids from the host; logits and a sampled token only for the rows that the host names
  kDecode,   // one token per slot, read from the state that sampling wrote
  kScore,    // ids and labels from the host: the mean negative log-likelihood, no logits
  kLogits,   // ids from the host: the logits [N,V] of all tokens, nothing is sampled
  kHidden,   // ids from the host: the hidden states [N,D] after the last norm
};
// Whether the graph samples the next tokens.
inline bool samples(InferenceTask task) {
  return task == InferenceTask::kPrefill || task == InferenceTask::kDecode;
}

// A bucket: everything that determines the shapes of a graph.
struct InferenceShape {
  InferenceTask task = InferenceTask::kPrefill;
  int64_t tokens = 1;   // N; for decode the number of slots
  int64_t context = 1;  // bound on the keys that a token attends to
  bool cached = true;   // false: one sequence of N tokens from position 0, without a cache
  CacheShape cache;
  // R, for kPrefill: logits are computed for so many tokens, each of another slot; at least 1.
  // None: as many as slots.
  std::optional<int64_t> rows = std::nullopt;

  int64_t row_count() const { return rows.value_or(cache.slots); }
};

// Inputs, besides states (models/inference_names.h has all names):
//   ids, positions  i32[N]    position -1 is padding
//   slots, labels   i32[N]    if the task has them
//   rows, row_slots i32[R]    kPrefill: tokens whose logits are computed, their slots, -1 = none
//   next_positions  i32[S]    per slot the position of the token to sample, -1 = none
//   sampling        f32[S,6]  temperature, top-k, top-p, min-p, repeat penalty, biases; 0 = off
//   seeds           i32[S]
//   biased, biases  [S,A]     per slot the ids, ascending, whose logits change, and by how much
//   block tables    i32[S,B]
ForwardGraph build_inference_graph(const ModelConfig& config,
                                   const OpTable& ops,
                                   const InferenceShape& shape,
                                   const WeightLookup& weights);

}  // namespace ridge::models
