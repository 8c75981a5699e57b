// SPDX-License-Identifier: Apache-2.0
// Builds a JSON document from a parser's events, within limits and without recursion. json.h and
// json_stream.h parse with it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"

namespace ridge::files {

// Says what a second value of a key means.
enum class Duplicates { kRefused, kLastCounts };

class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  using Json = nlohmann::json;

  // Source and limits must outlive the builder.
  JsonBuilder(std::string_view source,
              const JsonLimits& limits,
              Duplicates duplicates = Duplicates::kRefused)
      : source_(source), limits_(limits), duplicates_(duplicates) {}

  // The document, once it is complete. The builder is then ready for another one.
  Json take() {
    values_ = 0;
    return std::move(root_);
  }

  bool null() override { return leaf(nullptr); }
  bool boolean(bool value) override { return leaf(value); }
  bool number_integer(number_integer_t value) override { return leaf(value); }
  bool number_unsigned(number_unsigned_t value) override { return leaf(value); }
  bool number_float(number_float_t value, const string_t&) override { return leaf(value); }
  bool string(string_t& value) override { return leaf(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has no binary values

  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    Json& object = *open_.back();
    if (duplicates_ == Duplicates::kRefused && object.contains(name))
      throw file_error("[{}] the key {} appears twice", source_, printable(name));
    slot_ = &object[name];
    return true;
  }

  bool parse_error(size_t position,
                   const std::string& token,
                   const nlohmann::detail::exception&) override {
    throw file_error("[{}] not valid JSON at byte {}, near {}", source_, position,
                     printable(token, 40));
  }

 protected:
  size_t depth() const { return open_.size(); }  // open containers
  virtual void completed() {}                    // called when the document is complete

 private:
  // Stores the next value in its place: the root, the key just read, or the end of the open array.
  Json& place(Json value) {
    if (++values_ > limits_.max_values)
      throw file_error("[{}] expected at most {} JSON values", source_, limits_.max_values);
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_array()) return open_.back()->emplace_back(std::move(value));
    return *slot_ = std::move(value);
  }

  template <typename T>
  bool leaf(T&& value) {
    place(Json(std::forward<T>(value)));
    if (open_.empty()) completed();
    return true;
  }

  bool open(Json container) {
    if (static_cast<int>(open_.size()) >= limits_.max_depth)
      throw file_error("[{}] expected JSON at most {} levels deep", source_, limits_.max_depth);
    open_.push_back(&place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    if (open_.empty()) completed();
    return true;
  }

  std::string_view source_;
  const JsonLimits& limits_;
  Duplicates duplicates_;
  Json root_;
  // A container's address is stable while it is open: only its last child grows.
  std::vector<Json*> open_;
  Json* slot_ = nullptr;
  int64_t values_ = 0;
};

}  // namespace ridge::files
