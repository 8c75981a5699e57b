// SPDX-License-Identifier: Apache-2.0
// Data sets of token ids as text and as JSON, and a trained tokenizer as text.
#pragma once

#include <string>

#include "record/data_set.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::report {

// The texts end in a newline.
std::string data_set_text(const record::DataSetSummary& summary);
// Without the text of the beginning.
std::string data_set_text(const record::DataSetContents& contents, const TerminalOptions& options);
Json data_set_json(const record::DataSetContents& contents);

// `wanted` is the number of tokens that was asked for.
std::string trained_text(const record::TrainedTokenizer& made,
                         int64_t wanted,
                         const TerminalOptions& options);

}  // namespace ridge::report
