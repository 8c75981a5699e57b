// SPDX-License-Identifier: Apache-2.0
// The known name that a mistyped one is likely to mean. Knows no list of names by itself.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ridge {
inline namespace base {

// The name with the fewest letters inserted, deleted, changed or swapped with the next (optimal
// string alignment, Damerau 1964); case, '-' and '_' are no difference. Empty where none is within
// a third of the longer name's letters.
std::string nearest_name(std::string_view word, std::span<const std::string> names);

// " (did you mean NAME?)", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace base
}  // namespace ridge
