// SPDX-License-Identifier: Apache-2.0
// Scores texts with a session.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "record/answer.h"
#include "serve/session_choice.h"

namespace ridge::serve {

// The sum of -ln p over the scored tokens.
struct Likelihood {
  double nll = 0;
  int64_t tokens = 0;
};
// Computes the likelihood of ids[1..], each given the ids before it, in slot 0. Takes 2 to
// `capacity` ids. Throws as Session::logits does.
Likelihood score(Session& session, std::span<const int32_t> ids);

// A text that is longer than the session's capacity is cut into pieces; tokens do not attend to
// earlier pieces. Calls `progress` with the number of tokens of each piece.
record::TextScore score_text(Session& session,
                             const InferenceOptions& options,
                             std::span<const int32_t> ids,
                             const std::function<void(int64_t)>& progress);

}  // namespace ridge::serve
