// SPDX-License-Identifier: Apache-2.0
// Finds the separators one after the other.
#include "base/split.h"

#include <algorithm>

namespace ridge {
inline namespace base {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace base
}  // namespace ridge
