// SPDX-License-Identifier: Apache-2.0
// Suggests the known name that a mistyped one most likely means. The caller passes the known names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ridge {
inline namespace base {

// The name at the smallest edit distance: insertions, deletions, changes and swaps of adjacent
// letters (optimal string alignment, Damerau 1964). Case, '-' and '_' are ignored. Empty if no name
// is within a third of the longer name's letters.
std::string nearest_name(std::string_view word, std::span<const std::string> names);

// " (did you mean NAME?)", or an empty string if no name is close.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace base
}  // namespace ridge
