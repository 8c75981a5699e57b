// SPDX-License-Identifier: Apache-2.0
// A SAX consumer that hands each element of a list over as soon as it is complete.
#include "files/json_stream.h"

#include <cstddef>
#include <iterator>
#include <string>
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

// Builds one value after the other.
class ListStream : public JsonBuilder {
 public:
  ListStream(BlockReader& reader,
             std::string_view list,
             const std::function<void(json&)>& element,
             const JsonStreamLimits& limits)
      : JsonBuilder(reader.source(), limits.element, Duplicates::kLastCounts),
        reader_(reader),
        list_(list),
        element_(element),
        limits_(limits) {
    reader_.limit_item(limits_.max_element_bytes);
  }

  json others() { return std::move(others_); }

  bool start_object(size_t size) override {
    if (state_ != ParseState::kStart) return JsonBuilder::start_object(size);
    state_ = ParseState::kObject;
    return true;
  }
  bool end_object() override {
    return depth() == 0 || JsonBuilder::end_object();  // else the document ends here
  }
  bool start_array(size_t size) override {
    const bool is_document = state_ == ParseState::kStart;
    if (!is_document && (state_ != ParseState::kObject || depth() > 0 || key_ != list_))
      return JsonBuilder::start_array(size);
    ends_document_ = is_document;
    state_ = ParseState::kList;
    return true;
  }
  bool end_array() override {
    if (state_ != ParseState::kList || depth() > 0) return JsonBuilder::end_array();
    state_ = ends_document_ ? ParseState::kEnd : ParseState::kObject;
    return true;
  }

  bool key(string_t& name) override {
    if (state_ != ParseState::kObject || depth() > 0) return JsonBuilder::key(name);
    if (++keys_ > limits_.max_keys)
      throw file_error("[{}] expected at most {} keys", reader_.source(), limits_.max_keys);
    key_ = name;
    return true;
  }

 private:
  enum class ParseState { kStart, kObject, kList, kEnd };

  // Hands a complete value over.
  void completed() override {
    if (state_ == ParseState::kStart)
      throw file_error("[{}] expected a JSON object or a list", reader_.source());
    json value = take();
    reader_.limit_item(limits_.max_element_bytes);
    if (state_ == ParseState::kObject) {
      others_[key_] = std::move(value);
      return;
    }
    if (++elements_ > limits_.max_elements)
      throw file_error("[{}] expected at most {} elements", reader_.source(), limits_.max_elements);
    element_(value);
  }

  BlockReader& reader_;
  std::string_view list_;
  const std::function<void(json&)>& element_;
  const JsonStreamLimits& limits_;
  json others_ = json::object();
  std::string key_;
  ParseState state_ = ParseState::kStart;
  bool ends_document_ = false;  // the list is the document
  int64_t elements_ = 0;
  int keys_ = 0;
};

}  // namespace

json stream_json(BlockReader& reader,
                 std::string_view list,
                 const std::function<void(json&)>& element,
                 const JsonStreamLimits& limits) {
  ListStream stream(reader, list, element, limits);
  json::sax_parse(ByteIterator(&reader), ByteIterator(nullptr), &stream);
  return stream.others();
}

}  // namespace ridge::files
