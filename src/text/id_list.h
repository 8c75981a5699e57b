// SPDX-License-Identifier: Apache-2.0
// Lists of token ids as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::text {

// Parses token ids separated by spaces or commas, or JSON in the format of `ridge tokenizer encode
// --json`. Errors name `source`: an option or "stdin".
std::vector<int32_t> parse_ids(const std::string& text, const char* source);

}  // namespace ridge::text
