// SPDX-License-Identifier: Apache-2.0
// A value of a JSON document together with its place, so that a bad-file Error can name the field.
// Typed access to documents that files/json.h has read; no schema.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::models {

class JsonField {
 public:
  // `place` is the file, then the keys: "tokenizer.json: model.vocab". The value must outlive the
  // field.
  JsonField(const nlohmann::json& value, std::string place)
      : value_(value), place_(std::move(place)) {}

  // An object's key that is there and not null.
  bool has(const char* key) const {
    return value_.is_object() && value_.contains(key) && !value_[key].is_null();
  }
  JsonField at(const char* key) const {
    if (!value_.is_object()) throw fault("an object");
    if (!has(key)) throw file_error("[{}] the key '{}' is missing", place_, key);
    return {value_[key],
            fmt::format("{}{}{}", place_, place_.ends_with(".json") ? ": " : ".", key)};
  }
  JsonField at(size_t index) const { return {value_[index], fmt::format("{}[{}]", place_, index)}; }

  bool is_object() const { return value_.is_object(); }
  bool is_array() const { return value_.is_array(); }
  size_t size() const { return value_.size(); }
  // An array's, checked.
  const nlohmann::json& list() const {
    if (!value_.is_array()) throw fault("a list");
    return value_;
  }
  const nlohmann::json& object() const {
    if (!value_.is_object()) throw fault("an object");
    return value_;
  }

  const std::string& text() const {
    if (!value_.is_string()) throw fault("a string");
    return value_.get_ref<const std::string&>();
  }
  bool flag() const {
    if (!value_.is_boolean()) throw fault("true or false");
    return value_.get<bool>();
  }
  int64_t integer(int64_t least, int64_t most) const {
    bool fits =
        value_.is_number_integer() &&
        !(value_.is_number_unsigned() && value_.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
    int64_t number = fits ? value_.get<int64_t>() : 0;
    if (!fits || number < least || number > most)
      throw fault(fmt::format("an integer from {} to {}", least, most));
    return number;
  }
  bool flag_or(const char* key, bool fallback) const {
    return has(key) ? at(key).flag() : fallback;
  }
  std::string text_or(const char* key, const char* fallback) const {
    return has(key) ? at(key).text() : fallback;
  }

  const nlohmann::json& value() const { return value_; }
  const std::string& place() const { return place_; }
  Error fault(const std::string& expected, const std::string& found) const {
    return file_error("[{}] expected {}, found {}", place_, expected, found);
  }
  Error fault(const std::string& expected) const {
    constexpr size_t kShown = 60;
    // A container is named, not written out: it may be the whole vocabulary.
    if (value_.is_structured()) return fault(expected, value_.is_array() ? "a list" : "an object");
    return fault(
        expected,
        printable(value_.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), kShown));
  }

 private:
  const nlohmann::json& value_;
  std::string place_;
};

}  // namespace ridge::models
