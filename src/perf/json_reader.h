// SPDX-License-Identifier: Apache-2.0
// JSON records of this room read with checks: what is missing or of another type is an Error (bad
// file) that names the member by its path. Private to perf's JSON files.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/printable.h"

namespace ridge::perf {

using Json = nlohmann::ordered_json;

inline Json parse_json(std::string_view text, std::string_view origin) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw file_error("{}: expected JSON: {}", origin, printable(error.what()));
  }
}

// A JSON object whose members are read with checks that name them.
class JsonReader {
 public:
  JsonReader(const Json& json, std::string path) : json_(json), path_(std::move(path)) {
    if (!json.is_object()) fail("an object", json);
  }

  double number(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number()) fail_at(key, "a number", value);
    return value.get<double>();
  }
  int64_t integer(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number_integer()) fail_at(key, "an integer", value);
    if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
      fail_at(key, "an integer below 2^63", value);
    return value.get<int64_t>();
  }
  int small_integer(const char* key) const {
    int64_t value = integer(key);
    if (value < 0 || value > INT32_MAX) fail_at(key, "an integer from 0 to 2^31 - 1", at(key));
    return static_cast<int>(value);
  }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) fail_at(key, "a text", value);
    return value.get<std::string>();
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> all;
    for (const Json& each : list(key)) {
      if (!each.is_string()) fail_at(key, "texts", each);
      all.push_back(each.get<std::string>());
    }
    return all;
  }
  JsonReader object(const char* key) const { return JsonReader(at(key), path_ + "." + key); }
  std::vector<JsonReader> objects(const char* key) const {
    std::vector<JsonReader> all;
    for (const Json& each : list(key)) all.emplace_back(each, path_ + "." + key);
    return all;
  }
  bool has(const char* key) const { return json_.contains(key); }
  // The members of an object of numbers, in the file's order.
  std::vector<std::pair<std::string, double>> numbers(const char* key) const {
    const Json& value = at(key);
    if (!value.is_object()) fail_at(key, "an object of numbers", value);
    std::vector<std::pair<std::string, double>> all;
    for (const auto& [name, each] : value.items()) {
      if (!each.is_number()) fail_at(key, "numbers", each);
      all.emplace_back(name, each.template get<double>());
    }
    return all;
  }
  DType dtype(const char* key) const {
    auto found = parse_dtype(text(key));
    if (!found) fail_at(key, "an element type", at(key));
    return *found;
  }
  [[noreturn]] void fail_at(const char* key, const char* expected, const Json& found) const {
    throw file_error("{}.{}: expected {}, found {}", path_, key, expected, shortened(found));
  }

 private:
  static std::string shortened(const Json& found) {
    std::string text = found.dump(-1, ' ', true, Json::error_handler_t::replace);
    return text.size() <= 60 ? text : text.substr(0, 57) + "...";
  }
  [[noreturn]] void fail(const char* expected, const Json& found) const {
    throw file_error("{}: expected {}, found {}", path_, expected, shortened(found));
  }
  const Json& at(const char* key) const {
    auto found = json_.find(key);
    if (found == json_.end())
      throw file_error("{}: expected a member '{}', found none", path_, key);
    return *found;
  }
  const Json& list(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) fail_at(key, "a list", value);
    return value;
  }

  const Json& json_;
  std::string path_;
};

}  // namespace ridge::perf
