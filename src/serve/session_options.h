// SPDX-License-Identifier: Apache-2.0
// The size of a session, its passes and its KV cache.
#pragma once

#include <cstdint>
#include <optional>

#include "models/cache_shape.h"
#include "models/config.h"
#include "passes/pipeline.h"
#include "serve/model_stage.h"

namespace ridge::serve {

// Block tables grow with the number of sequences. A larger number is most likely a typing error.
inline constexpr int64_t kMostSlots = 4096;

struct SessionOptions {
  int64_t slots = 1;     // concurrent sequences
  int64_t capacity = 0;  // positions per sequence; 0: the model's context
  int64_t chunk = 512;   // prefill chunk size
  // If false, there is one slot, and the whole sequence is recomputed for every token.
  bool cached = true;
  passes::Selection selection{"compiled", "-tune_gemm"};
  int64_t rank = 0;       // this process, if several share each layer
  ModelStage stage = {};  // the layers of this process
  // If true, a sequence reuses cached blocks of others with the same prefix.
  bool prefix_caching = false;
  // If true, the cache has blocks of models::kBlockTokens positions even without prefix_caching.
  bool pages = false;
  // With prefix_caching, the tokens that the KV cache has room for. 0: `capacity` for each slot.
  int64_t kv_capacity_tokens = 0;
  // The type of keys and values, by default that of activations. fp32 ones also allow bf16 and i8.
  std::optional<DType> cache_dtype;
};

// Fills in the defaults. Throws usage Errors for options out of range.
SessionOptions checked(SessionOptions options, const models::ModelConfig& config);
// Returns the cache shape of a session. The options must have a capacity.
models::CacheShape cache_of(const SessionOptions& options, const models::ModelConfig& config);

}  // namespace ridge::serve
