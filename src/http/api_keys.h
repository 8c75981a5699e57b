// SPDX-License-Identifier: Apache-2.0
// The keys that clients must show.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::http {

class ApiKeys {
 public:
  ApiKeys() = default;  // no key is asked for
  explicit ApiKeys(const std::vector<std::string>& keys) {
    for (const std::string& each : keys) keys_.push_back({each, 0});
  }
  // A key a line, and after a space the tenant that it belongs to; blanks at the end of a line, empty
  // lines and lines that begin with # are skipped. Throws a bad-file Error if there is no key, or one is
  // shorter than 8 characters or has two tenants, or a word is not printable ASCII.
  static ApiKeys read(const std::filesystem::path& path);

  bool empty() const { return keys_.empty(); }
  // The tenant of the key that the header Authorization holds, as in "Bearer KEY": 0 if it has none, one
  // number for all keys of a tenant. No value if it is no key. How long it takes says nothing about how
  // much of a key is right.
  std::optional<uint32_t> tenant(std::string_view authorization) const;
  bool accept(std::string_view authorization) const { return tenant(authorization).has_value(); }

 private:
  std::vector<std::pair<std::string, uint32_t>> keys_;  // each with its tenant
};

}  // namespace ridge::http
