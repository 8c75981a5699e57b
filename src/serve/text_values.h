// SPDX-License-Identifier: Apache-2.0
// The logits and log-probabilities at each position of a text, and the text's embedding.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "serve/session.h"

namespace ridge::serve {

// Called between chunks; throws to end the computation.
using TextProgress = std::function<void()>;

// All throw usage Errors for no ids, ids out of range, more than the context, and if no slot is
// free; and as Session::logits does.

// The logits [T,V] after each of T ids, row by row.
std::vector<float> logits_of_all(Session& session,
                                 std::span<const int32_t> ids,
                                 const TextProgress& progress);
// The natural logarithm of the probability of each id after the first, given those before it
// [T-1].
std::vector<float> log_probabilities(Session& session,
                                     std::span<const int32_t> ids,
                                     const TextProgress& progress);

enum class Pooling : uint8_t { kMean, kLast };
// Throws a usage Error for a name other than "mean" and "last".
Pooling parse_pooling(std::string_view name);
// The hidden states after the last norm [D]: their mean over the ids, or those of the last id.
// `is_normalized`: divided by their Euclidean norm.
std::vector<float> embedding(Session& session,
                             std::span<const int32_t> ids,
                             Pooling pooling,
                             bool is_normalized,
                             const TextProgress& progress);

}  // namespace ridge::serve
