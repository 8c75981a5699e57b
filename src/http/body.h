// SPDX-License-Identifier: Apache-2.0
// Typed access to the JSON object and the query of a request. A field that is absent or null has no
// value; one of another type or out of range throws an ApiError 400 that names it, what was
// expected and what was found.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::http {

class Body {
 public:
  // Parses hostile text: bounded depth and size, strict grammar, valid UTF-8.
  explicit Body(std::string_view text);

  // The field's value, or null if it has none.
  const nlohmann::json* find(const char* key) const;
  std::optional<double> number(const char* key, double least, double most) const;
  std::optional<int64_t> integer(const char* key, int64_t least, int64_t most) const;
  std::optional<bool> flag(const char* key) const;
  std::optional<std::string> text(const char* key) const;

 private:
  nlohmann::json object_;
};

// The error of a field: "[temperature] expected a number from 0 to 2, got -1". Long values are
// named, not printed.
[[noreturn]] void refuse_field(const std::string& key,
                               const std::string& expected,
                               const nlohmann::json& found);

// The whole number of a key of a query, "after=12&seconds=5", or `otherwise` if it lacks the key.
// Throws an ApiError 400 that names it, what was expected and what was found. The first of several
// counts; other keys are ignored.
int64_t query_integer(std::string_view query,
                      const std::string& key,
                      int64_t least,
                      int64_t most,
                      int64_t otherwise);

}  // namespace ridge::http
