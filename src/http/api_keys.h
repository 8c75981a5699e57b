// SPDX-License-Identifier: Apache-2.0
// The keys that clients must show.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::http {

class ApiKeys {
 public:
  ApiKeys() = default;  // no key is asked for
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}
  // One key a line; empty lines and lines that begin with # are skipped. Throws a bad-file Error if
  // there is no key, or one is shorter than 8 characters or not printable ASCII.
  static ApiKeys read(const std::filesystem::path& path);

  bool empty() const { return keys_.empty(); }
  // Whether the header Authorization holds a key: "Bearer KEY". How long it takes says nothing
  // about how much of a key is right.
  bool accept(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

}  // namespace ridge::http
