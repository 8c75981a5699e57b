// SPDX-License-Identifier: Apache-2.0
// Patterns of attention, with or without a KV cache, and of the projections that feed it. Used by
// passes on projections and rotations.
#pragma once

#include <string>

#include "graph/pattern.h"

namespace ridge::passes {

// Attention without a cache: q [N,H,E], k and v [N,K,E] of this run's tokens.
Pattern attention_of(Pattern q, Pattern k, Pattern v);
// Attention over a cache that k and v are appended to. Captures "append".
Pattern cached_attention_of(Pattern q, Pattern k, Pattern v);

// A slice of columns of `merged`. Captures NAME_part.
Pattern columns_of(Pattern merged, const std::string& name);
// Whether q_part, k_part and v_part, in this order, cover all columns of the sliced value.
bool are_all_columns(const Match& match);

}  // namespace ridge::passes
