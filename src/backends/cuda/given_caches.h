// SPDX-License-Identifier: Apache-2.0
// The types of KV caches that CUDA's attention and rope_append have kernels for.
#pragma once

#include <fmt/format.h>

#include <string>

#include "backends/kernels/kv_cache.h"
#include "base/dtype.h"
#include "ops/kv_cache.h"

namespace ridge::backends::cuda {

// Returns an empty string, or what is expected instead.
inline std::string unsupported_cache(DType tokens, DType cache) {
  if (tokens == cache || (tokens == DType::kBF16 && ops::has_scales(cache))) return "";
  return fmt::format("expected a KV cache in {}, the type of its tokens{}, got {}", name(tokens),
                     tokens == DType::kBF16 ? ", or in i8 or f8_e4m3" : "", name(cache));
}

// Calls make<T, C>() with the types of tokens and cache.
template <typename Make>
auto by_given_caches(DType tokens, DType cache, const Make& make) {
  if (cache == DType::kI8) return make.template operator()<uint16_t, int8_t>();
  if (cache == DType::kF8E4M3) return make.template operator()<uint16_t, F8E4M3>();
  if (tokens == DType::kBF16) return make.template operator()<uint16_t, uint16_t>();
  return make.template operator()<float, float>();
}

}  // namespace ridge::backends::cuda
