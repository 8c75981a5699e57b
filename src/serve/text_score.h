// SPDX-License-Identifier: Apache-2.0
// Scores a text with a session.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "record/text_score.h"
#include "serve/session_choice.h"

namespace ridge::serve {

// A text that is longer than the session's capacity is cut into pieces; tokens do not attend to
// earlier pieces. Calls `progress` with the number of tokens of each piece.
record::TextScore score_text(Session& session,
                             const InferenceOptions& options,
                             std::span<const int32_t> ids,
                             const std::function<void(int64_t)>& progress);

}  // namespace ridge::serve
