// SPDX-License-Identifier: Apache-2.0
// Checks types and ranges of fields. A query is split at "&" and "="; numbers need no
// percent-encoding.
#include "http/body.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"
#include "http/api_error.h"
#include "http/json_text.h"

namespace ridge::http {
namespace {

// No request of the API nests deeper than a few levels; a list of ids is the largest. A chat has a
// few keys a message.
constexpr files::JsonLimits kLimits{.max_depth = 16,
                                    .max_values = int64_t{1} << 20,
                                    .max_keys = int64_t{1} << 17};

std::string shown(const nlohmann::json& value) {
  constexpr size_t kShown = 60;
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  if (value.is_string()) return printable(value.get_ref<const std::string&>(), kShown);
  return json_text(value);
}

}  // namespace

void refuse_field(const std::string& key,
                  const std::string& expected,
                  const nlohmann::json& found) {
  throw ApiError(400, fmt::format("[{}] expected {}, got {}", key, expected, shown(found)), key);
}

Body::Body(std::string_view text) {
  try {
    object_ = files::parse_json(text, "body", kLimits);
  } catch (const Error& error) {
    throw ApiError(400, error.what());
  }
  if (!object_.is_object()) refuse_field("body", "a JSON object", object_);
}

const nlohmann::json* Body::find(const char* key) const {
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Body::number(const char* key, double least, double most) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= least && number <= most))
    refuse_field(key, fmt::format("a number from {} to {}", least, most), *value);
  return number;
}

std::optional<int64_t> Body::integer(const char* key, int64_t least, int64_t most) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool is_large =
      value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const bool fits = value->is_number_integer() && !is_large;
  const int64_t number = fits ? value->get<int64_t>() : 0;
  if (!fits || number < least || number > most)
    refuse_field(key, fmt::format("an integer from {} to {}", least, most), *value);
  return number;
}

std::optional<bool> Body::flag(const char* key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) refuse_field(key, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> Body::text(const char* key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse_field(key, "a string", *value);
  return value->get<std::string>();
}

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
