// SPDX-License-Identifier: Apache-2.0
// Splits a text at a separator, and reads lists of sizes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {
inline namespace base {

// The parts between separators, empty ones too: one more than there are separators.
std::vector<std::string> split(std::string_view text, char separator = ',');

// "8,16": at least one number, each >= 1. Throws a usage Error that names the option.
std::vector<int64_t> parse_sizes(std::string_view text, const char* option);

}  // namespace base
}  // namespace ridge
