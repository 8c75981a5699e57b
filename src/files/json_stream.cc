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

class ListStream : public nlohmann::json_sax<json> {
 public:
  ListStream(BlockReader& reader,
             std::string_view list,
             const std::function<void(json&)>& element,
             const JsonStreamLimits& limits)
      : reader_(reader),
        list_(list),
        element_(element),
        limits_(limits),
        builder_(reader.source(), limits.element, Duplicates::kLastCounts) {
    reader_.limit_item(limits_.max_element_bytes);
  }

  json take() { return std::move(others_); }

  bool null() override {
    return pass([&] { return builder_.null(); });
  }
  bool boolean(bool value) override {
    return pass([&] { return builder_.boolean(value); });
  }
  bool number_integer(number_integer_t value) override {
    return pass([&] { return builder_.number_integer(value); });
  }
  bool number_unsigned(number_unsigned_t value) override {
    return pass([&] { return builder_.number_unsigned(value); });
  }
  bool number_float(number_float_t value, const string_t& text) override {
    return pass([&] { return builder_.number_float(value, text); });
  }
  bool string(string_t& value) override {
    return pass([&] { return builder_.string(value); });
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t size) override {
    if (place_ == Place::kStart) {
      place_ = Place::kObject;
      return true;
    }
    ++depth_;
    return pass([&] { return builder_.start_object(size); });
  }
  bool end_object() override {
    if (depth_ == 0) return true;  // the document ends here
    --depth_;
    return pass([&] { return builder_.end_object(); });
  }
  bool start_array(size_t size) override {
    const bool is_document = place_ == Place::kStart;
    if (is_document || (place_ == Place::kObject && depth_ == 0 && key_ == list_)) {
      ends_document_ = is_document;
      place_ = Place::kList;
      return true;
    }
    ++depth_;
    return pass([&] { return builder_.start_array(size); });
  }
  bool end_array() override {
    if (place_ == Place::kList && depth_ == 0) {
      place_ = ends_document_ ? Place::kEnd : Place::kObject;
      return true;
    }
    --depth_;
    return pass([&] { return builder_.end_array(); });
  }

  bool key(string_t& name) override {
    if (place_ != Place::kObject || depth_ > 0) return builder_.key(name);
    if (++keys_ > limits_.max_keys)
      throw file_error("[{}] expected at most {} keys", reader_.source(), limits_.max_keys);
    key_ = name;
    return true;
  }

  bool parse_error(size_t position,
                   const std::string& token,
                   const nlohmann::detail::exception& error) override {
    return builder_.parse_error(position, token, error);
  }

 private:
  enum class Place { kStart, kObject, kList, kEnd };

  // Lets the builder take an event, and hands over what that completes.
  template <typename Take>
  bool pass(Take take) {
    if (place_ == Place::kStart)
      throw file_error("[{}] expected a JSON object or a list", reader_.source());
    take();
    if (!builder_.is_complete()) return true;
    json value = builder_.take();
    reader_.limit_item(limits_.max_element_bytes);
    if (place_ == Place::kObject) {
      others_[key_] = std::move(value);
      return true;
    }
    if (++elements_ > limits_.max_elements)
      throw file_error("[{}] expected at most {} elements", reader_.source(), limits_.max_elements);
    element_(value);
    return true;
  }

  BlockReader& reader_;
  std::string_view list_;
  const std::function<void(json&)>& element_;
  const JsonStreamLimits& limits_;
  JsonBuilder builder_;
  json others_ = json::object();
  std::string key_;
  Place place_ = Place::kStart;
  bool ends_document_ = false;  // the list is the document
  int64_t depth_ = 0;           // open containers of the value that the builder builds
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
  return stream.take();
}

}  // namespace ridge::files
