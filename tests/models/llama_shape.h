// SPDX-License-Identifier: Apache-2.0
// Models for tests that need only their extents.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tuple>

#include "models/config.h"

namespace ridge::models {

// A Llama with the extents V, D, L, H, K, E, F and its context length; everything else is the
// default.
inline ModelConfig llama_shape(const std::string& name, const std::array<int64_t, 8>& extents) {
  ModelConfig c;
  c.name = name;
  std::tie(c.vocabulary, c.hidden, c.layers, c.heads, c.kv_heads, c.head_size, c.feed_forward,
           c.context) = std::tuple_cat(extents);
  return c;
}

}  // namespace ridge::models
