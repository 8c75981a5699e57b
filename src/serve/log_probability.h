// SPDX-License-Identifier: Apache-2.0
// Computes the log-probabilities of a token and of the most likely tokens from logits on the host.
#pragma once

#include <span>

#include "serve/request.h"

namespace ridge::serve {

// Scores `token` and the `top` most likely tokens, at most V. The logits [V] must be finite; among
// equal ones the lower id comes first.
TokenScores score_token(std::span<const float> logits, int32_t token, int64_t top);

}  // namespace ridge::serve
