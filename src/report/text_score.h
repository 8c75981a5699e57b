// SPDX-License-Identifier: Apache-2.0
// The perplexity of a text (record/text_score.h), how far a second run is from it, and the largest
// logits after a prompt.
#pragma once

#include <optional>
#include <string>

#include "record/answer.h"
#include "record/text_score.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

std::string score_text(const record::TextScore& score,
                       const std::optional<record::TextScore>& compared,
                       const TerminalOptions& terminal);
Json score_json(const record::TextScore& score, const std::optional<record::TextScore>& compared);

// Each of the largest logits as [id, logit] or [id, logit, text].
Json logits_json(const record::TopLogits& logits);

}  // namespace ridge::report
