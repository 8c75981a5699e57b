// SPDX-License-Identifier: Apache-2.0
// Patterns of names, in which * stands for any characters, also none.
#pragma once

#include <string_view>

namespace ridge {
inline namespace base {

// Whether the pattern matches the whole name. Time is at most the product of the lengths.
bool matches_pattern(std::string_view pattern, std::string_view name);

}  // namespace base
}  // namespace ridge
