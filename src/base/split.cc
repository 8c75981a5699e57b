// SPDX-License-Identifier: Apache-2.0
// Finds the separators one after the other.
#include "base/split.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/printable.h"

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

std::vector<int64_t> parse_sizes(std::string_view text, const char* option) {
  std::vector<int64_t> sizes;
  for (const std::string& item : split(text)) {
    int64_t size = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), size);
    if (error != std::errc() || end != item.data() + item.size() || size < 1)
      throw usage_error("[{}] expected numbers >= 1, separated by commas, got {}", option,
                        printable(text));
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace base
}  // namespace ridge
