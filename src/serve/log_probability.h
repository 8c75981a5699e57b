// SPDX-License-Identifier: Apache-2.0
// The log-probabilities of a token and of the most likely ones, from logits on the host.
#pragma once

#include <span>

#include "serve/request.h"

namespace ridge::serve {

// Logits [V] must be finite. `top` alternatives, at most V; of equal logits the lower id first.
TokenScores score_token(std::span<const float> logits, int32_t token, int64_t top);

}  // namespace ridge::serve
