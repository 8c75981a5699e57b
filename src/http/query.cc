// SPDX-License-Identifier: Apache-2.0
// Splits at "&" and "="; numbers need no percent-encoding.
#include "http/query.h"

#include <fmt/format.h>

#include <charconv>

#include "base/printable.h"
#include "http/api_error.h"

namespace ridge::http {

int64_t query_integer(std::string_view query,
                      const std::string& key,
                      int64_t least,
                      int64_t most,
                      int64_t otherwise) {
  constexpr size_t kLongest = 40;  // printed of a wrong value
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    if (pair.substr(0, pair.find('=')) != key) continue;
    const std::string_view value = pair.substr(std::min(pair.size(), key.size() + 1));
    int64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size() || number < least ||
        number > most)
      throw ApiError(400,
                     fmt::format("[{}] expected a whole number from {} to {}, got {}", key, least,
                                 most, printable(std::string(value.substr(0, kLongest)))),
                     key);
    return number;
  }
  return otherwise;
}

}  // namespace ridge::http
