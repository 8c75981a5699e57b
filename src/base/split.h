// SPDX-License-Identifier: Apache-2.0
// Splits a text at a separator.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ridge {
inline namespace base {

// The parts between separators, empty ones too: one more than there are separators.
std::vector<std::string> split(std::string_view text, char separator = ',');

}  // namespace base
}  // namespace ridge
