// SPDX-License-Identifier: Apache-2.0
// Checks the options.
#include "serve/session_options.h"

#include <algorithm>

#include "base/error.h"
#include "ops/kv_cache.h"

namespace ridge::serve {

models::CacheShape cache_of(const SessionOptions& o, const models::ModelConfig& config) {
  models::CacheShape cache =
      models::cache_shape({.slots = o.slots,
                           .capacity = o.capacity,
                           .window = config.window,
                           .chunk = std::clamp<int64_t>(o.chunk, 1, o.slots * o.capacity),
                           .dtype = o.cache_dtype.value_or(o.selection.activations()),
                           .shares = o.prefix_caching,
                           .pages = o.pages,
                           .kv_capacity_tokens = o.kv_capacity_tokens,
                           .ranks = o.selection.tensor_ranks()});
  if (!o.stage.is_whole()) {
    const auto first = o.stage.first_layers.begin() + o.stage.index;
    cache.first_layer = first[0], cache.end_layer = first[1];
  }
  return cache;
}

SessionOptions checked(SessionOptions o, const models::ModelConfig& config) {
  if (o.slots < 1 || o.slots > kMostSlots)
    throw usage_error("[batch] expected 1 to {} sequences, got {}", kMostSlots, o.slots);
  if (o.capacity == 0) o.capacity = config.context;
  if (o.capacity < 1 || o.capacity > config.context)
    throw usage_error("[context] expected 1 to {} positions, the model's context, got {}",
                      config.context, o.capacity);
  if (o.chunk < 1) throw usage_error("[chunk] expected at least 1 token, got {}", o.chunk);
  const DType activations = o.selection.activations();
  if (!o.cache_dtype) o.cache_dtype = activations;
  if (!ops::can_hold(*o.cache_dtype, activations))
    throw usage_error("[cache-dtype] expected {}, got {}",
                      activations == DType::kF32    ? "f32, bf16, i8 or f8_e4m3"
                      : activations == DType::kBF16 ? "bf16, i8 or f8_e4m3"
                                                    : name(activations),
                      name(*o.cache_dtype));
  if (!o.cached && o.slots != 1)
    throw usage_error("[no-kv-cache] expected one sequence, got {}", o.slots);
  o.chunk = o.cached ? std::min(o.chunk, o.slots * o.capacity) : o.capacity;
  if (o.kv_capacity_tokens != 0 && (!o.prefix_caching || o.kv_capacity_tokens < o.capacity))
    throw usage_error("[cache] expected room for at least {} positions, one context, got {}",
                      o.capacity, o.kv_capacity_tokens);
  return o;
}

}  // namespace ridge::serve
