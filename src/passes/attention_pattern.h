// SPDX-License-Identifier: Apache-2.0
// What stands before an attention, whole or over a cache: for passes on projections and rotations.
#pragma once

#include <string>

#include "graph/pattern.h"

namespace ridge::passes {

// q [N,H,E], k and v [N,K,E] of this run's tokens.
Pattern attention_of(Pattern q, Pattern k, Pattern v);
// The same through a cache that k and v are appended to; captured: "append".
Pattern cached_attention_of(Pattern q, Pattern k, Pattern v);

// Columns of what `merged` stands for; captured: NAME_part.
Pattern columns_of(Pattern merged, const std::string& name);
// Whether q_part, k_part and v_part are all of its columns, in this order.
bool are_all_columns(const Match& match);

}  // namespace ridge::passes
