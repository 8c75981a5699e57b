// SPDX-License-Identifier: Apache-2.0
// A SAX consumer that hands each element of a list over as soon as it is complete.
#include "files/json_stream.h"

#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "files/json_builder.h"

namespace ridge::files {
namespace {

using nlohmann::json;

// The bytes of a reader. All copies share its position, as the parser expects of input iterators.
class ByteIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit ByteIterator(BlockReader* reader) : reader_(reader) {}  // null: the end
  char operator*() const { return reader_->current(); }
  ByteIterator& operator++() {
    reader_->advance();
    return *this;
  }
  void operator++(int) { reader_->advance(); }
  bool operator==(const ByteIterator& other) const { return is_end() == other.is_end(); }

 private:
  bool is_end() const { return reader_ == nullptr || reader_->at_end(); }
  BlockReader* reader_;
};

// Where the parser is in the document.
enum class ParseState { kStart, kObject, kList, kEnd };

// Builds one value after the other, or hands the parts of elements on.
class ListStream final : public JsonBuilder {
 public:
  // One of `element` and `parts` is null.
  ListStream(BlockReader& reader,
             std::string_view list,
             const std::function<void(json&)>* element,
             JsonParts* parts,
             const JsonStreamLimits& limits)
      : JsonBuilder(reader.source(), limits.element, Duplicates::kLastCounts),
        reader_(reader),
        list_(list),
        element_(element),
        parts_(parts),
        limits_(limits) {
    reader_.limit_item(limits_.max_element_bytes);
  }

  json others() { return std::move(others_); }

  bool null() override { return passes() ? pass(&JsonParts::null) : JsonBuilder::null(); }
  bool boolean(bool value) override {
    return passes() ? pass(&JsonParts::boolean, value) : JsonBuilder::boolean(value);
  }
  bool number_integer(number_integer_t value) override {
    return passes() ? pass(&JsonParts::integer, value) : JsonBuilder::number_integer(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (!passes()) return JsonBuilder::number_unsigned(value);
    return value > INT64_MAX ? pass(&JsonParts::real, static_cast<double>(value))
                             : pass(&JsonParts::integer, static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return passes() ? pass(&JsonParts::real, value) : JsonBuilder::number_float(value, text);
  }
  bool string(string_t& value) override {
    return passes() ? pass(&JsonParts::string, value) : JsonBuilder::string(value);
  }

  bool start_object(size_t size) override {
    if (state_ == ParseState::kStart) {
      state_ = ParseState::kObject;
      return true;
    }
    return passes() ? open_part(&JsonParts::begin_object) : JsonBuilder::start_object(size);
  }
  bool end_object() override {
    if (passes()) return close_part();
    return depth() == 0 || JsonBuilder::end_object();  // else the document ends here
  }
  bool start_array(size_t size) override {
    const bool is_document = state_ == ParseState::kStart;
    if (!is_document && (state_ != ParseState::kObject || depth() > 0 || key_ != list_))
      return passes() ? open_part(&JsonParts::begin_array) : JsonBuilder::start_array(size);
    ends_document_ = is_document;
    state_ = ParseState::kList;
    return true;
  }
  bool end_array() override {
    if (part_depth_ > 0) return close_part();
    if (state_ != ParseState::kList || depth() > 0) return JsonBuilder::end_array();
    state_ = ends_document_ ? ParseState::kEnd : ParseState::kObject;
    return true;
  }

  bool key(string_t& name) override {
    if (passes()) {
      parts_->key(name);
      return true;
    }
    if (state_ != ParseState::kObject || depth() > 0) return JsonBuilder::key(name);
    if (++keys_ > limits_.max_keys)
      throw file_error("[{}] expected at most {} keys", reader_.source(), limits_.max_keys);
    key_ = name;
    return true;
  }

 private:
  // Whether what comes next is a part of an element that is not built.
  bool passes() const { return parts_ != nullptr && state_ == ParseState::kList; }

  template <typename... Value>
  bool pass(void (JsonParts::*part)(Value...), std::type_identity_t<Value>... value) {
    (parts_->*part)(value...);
    if (part_depth_ == 0) end_element();
    return true;
  }

  bool open_part(void (JsonParts::*begin)()) {
    if (part_depth_ >= limits_.element.max_depth)
      throw file_error("[{}] expected JSON at most {} levels deep", reader_.source(),
                       limits_.element.max_depth);
    ++part_depth_;
    (parts_->*begin)();
    return true;
  }

  bool close_part() {
    --part_depth_;
    parts_->end();
    if (part_depth_ == 0) end_element();
    return true;
  }

  void end_element() {
    count_element();
    parts_->complete();
  }

  void count_element() {
    reader_.limit_item(limits_.max_element_bytes);
    if (++elements_ > limits_.max_elements)
      throw file_error("[{}] expected at most {} elements", reader_.source(), limits_.max_elements);
  }

  // Hands a complete value over.
  void completed() override {
    if (state_ == ParseState::kStart)
      throw file_error("[{}] expected a JSON object or a list", reader_.source());
    json value = take();
    if (state_ == ParseState::kObject) {
      reader_.limit_item(limits_.max_element_bytes);
      others_[key_] = std::move(value);
      return;
    }
    count_element();
    (*element_)(value);
  }

  BlockReader& reader_;
  std::string_view list_;
  const std::function<void(json&)>* element_;
  JsonParts* parts_;
  const JsonStreamLimits& limits_;
  json others_ = json::object();
  std::string key_;
  ParseState state_ = ParseState::kStart;
  bool ends_document_ = false;  // the list is the document
  int part_depth_ = 0;          // open objects and arrays of an element that is not built
  int64_t elements_ = 0;
  int keys_ = 0;
};

json parse(BlockReader& reader, ListStream stream) {
  json::sax_parse(ByteIterator(&reader), ByteIterator(nullptr), &stream);
  return stream.others();
}

}  // namespace

json stream_json(BlockReader& reader,
                 std::string_view list,
                 const std::function<void(json&)>& element,
                 const JsonStreamLimits& limits) {
  return parse(reader, {reader, list, &element, nullptr, limits});
}

json stream_json_parts(BlockReader& reader,
                       std::string_view list,
                       JsonParts& parts,
                       const JsonStreamLimits& limits) {
  return parse(reader, {reader, list, nullptr, &parts, limits});
}

}  // namespace ridge::files
