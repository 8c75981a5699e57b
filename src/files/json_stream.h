// SPDX-License-Identifier: Apache-2.0
// Reads a JSON object with one long list in it, element by element, so that only one element is in
// memory: a trace of a gigabyte. json.h reads whole documents.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "files/block_reader.h"
#include "files/json.h"

namespace ridge::files {

struct JsonStreamLimits {
  // An element, and each other value of the object, stays below; elements that are handed over in
  // parts may have any number of values. Of duplicate keys the last counts.
  JsonLimits element = {.max_depth = 32, .max_values = 1 << 20};
  int64_t max_element_bytes = int64_t{16} << 20;
  int64_t max_elements = int64_t{1} << 25;
  int max_keys = 1000;  // the object has no more
};

// Calls `element` for each element of the list under `list`, in order, and returns the other keys
// of the object. A document that is a list itself is read as if it were under `list`. Throws a
// bad-file Error for text that is not valid JSON, names its byte, or breaks a limit.
nlohmann::json stream_json(BlockReader& reader,
                           std::string_view list,
                           const std::function<void(nlohmann::json&)>& element,
                           const JsonStreamLimits& limits = {});

// Takes the parts of elements, one after the other, so that nothing is built of what nobody reads.
// Here, each function drops its part.
class JsonParts {
 public:
  virtual ~JsonParts() = default;
  virtual void begin_object() {}
  virtual void begin_array() {}
  virtual void end() {}                 // the innermost object or array ends
  virtual void key(std::string&) {}     // the next value's; the text may be taken away
  virtual void string(std::string&) {}  // likewise
  virtual void integer(int64_t) {}
  virtual void real(double) {}  // integers above 2^63 too
  virtual void boolean(bool) {}
  virtual void null() {}
  virtual void complete() {}  // the element ends here
};

// Like stream_json.
nlohmann::json stream_json_parts(BlockReader& reader,
                                 std::string_view list,
                                 JsonParts& parts,
                                 const JsonStreamLimits& limits = {});

}  // namespace ridge::files
