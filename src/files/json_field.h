// SPDX-License-Identifier: Apache-2.0
// Typed access to documents parsed by json.h. Each value carries its place, so that a bad-file
// Error can name the field.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"

namespace ridge::files {

class JsonField {
 public:
  // `place` is the file, then the keys: "tokenizer.json: model.vocab". The value must outlive the
  // field.
  JsonField(const nlohmann::json& value, std::string place)
      : value_(value), place_(std::move(place)) {}

  // Whether the value is an object that has this key, and not null.
  bool has(const std::string& key) const {
    return value_.is_object() && value_.contains(key) && !value_[key].is_null();
  }
  JsonField at(const std::string& key) const {
    if (!value_.is_object()) throw fault("an object");
    if (!has(key)) throw file_error("[{}] the key {} is missing", place_, printable(key));
    return {value_[key],
            fmt::format("{}{}{}", place_, place_.ends_with(".json") ? ": " : ".", shown(key))};
  }
  JsonField at(size_t index) const { return {value_[index], fmt::format("{}[{}]", place_, index)}; }
  // The elements of a list, one field each.
  std::vector<JsonField> items() const {
    std::vector<JsonField> all;
    for (size_t i = 0; i < list().size(); ++i) all.push_back(at(i));
    return all;
  }

  bool is_object() const { return value_.is_object(); }
  bool is_array() const { return value_.is_array(); }
  size_t size() const { return value_.size(); }
  // The value itself, checked to be a list or an object.
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
  double real() const {
    if (!value_.is_number()) throw fault("a number");
    double number = value_.get<double>();
    if (!std::isfinite(number)) throw fault("a finite number");
    return number;
  }
  int64_t integer(int64_t least = INT64_MIN, int64_t most = INT64_MAX) const {
    bool fits =
        value_.is_number_integer() &&
        !(value_.is_number_unsigned() && value_.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX));
    int64_t number = fits ? value_.get<int64_t>() : 0;
    if (!fits || number < least || number > most) throw fault(integer_between(least, most));
    return number;
  }
  bool flag_or(const std::string& key, bool fallback) const {
    return has(key) ? at(key).flag() : fallback;
  }
  std::string text_or(const std::string& key, const char* fallback) const {
    return has(key) ? at(key).text() : fallback;
  }
  double real_or(const std::string& key, double fallback) const {
    return has(key) ? at(key).real() : fallback;
  }
  int64_t integer_or(const std::string& key, int64_t fallback) const {
    return has(key) ? at(key).integer() : fallback;
  }

  const nlohmann::json& value() const { return value_; }
  const std::string& place() const { return place_; }
  Error fault(const std::string& expected, const std::string& found) const {
    return file_error("[{}] expected {}, found {}", place_, expected, found);
  }
  Error fault(const std::string& expected) const {
    constexpr size_t kShown = 60;
    // A container is named, not printed: it may be the whole vocabulary.
    if (value_.is_structured()) return fault(expected, value_.is_array() ? "a list" : "an object");
    if (value_.is_string()) return fault(expected, printable(text(), kShown));
    return fault(expected, value_.dump());
  }

 private:
  // A key as messages show it: quoted only if it must be.
  static std::string shown(const std::string& key) {
    const std::string quoted = printable(key);
    return quoted.size() == key.size() + 2 ? key : quoted;
  }
  static std::string integer_between(int64_t least, int64_t most) {
    if (most < INT64_MAX) return fmt::format("an integer from {} to {}", least, most);
    return least > INT64_MIN ? fmt::format("an integer >= {}", least) : "an integer of 64 bits";
  }

  const nlohmann::json& value_;
  std::string place_;
};

}  // namespace ridge::files
