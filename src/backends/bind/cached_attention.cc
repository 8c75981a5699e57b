// SPDX-License-Identifier: Apache-2.0
// Binding of cached_attention: layouts and workspace. The kernel's arguments differ between
// backends.
#include "ops/cached_attention.h"

#include <utility>

#include "backends/bind/bindings.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {

Kernel cached_attention(Bind bind,
                        int64_t (*workspace_bytes)(int64_t tokens,
                                                   int64_t heads,
                                                   int64_t kv_heads,
                                                   int64_t head_size,
                                                   int64_t keys)) {
  return {.op = "cached_attention",
          .bind = std::move(bind),
          .takes_input = first_lies_in_heads,
          .takes_output = output_lies_in_heads,
          .workspace_bytes =
              [workspace_bytes](const Call& call) {
                ops::CachedAttention s = ops::cached_attention_shape(call);
                return workspace_bytes(s.cache.tokens, s.heads, s.cache.kv_heads, s.cache.head_size,
                                       s.keys());
              },
          .takes_quant_cache = true};
}

}  // namespace ridge::backends::bind
