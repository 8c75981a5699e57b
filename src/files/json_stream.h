// SPDX-License-Identifier: Apache-2.0
// Reads a JSON object with one long list in it, element by element, so that only one element is in
// memory: a trace of a gigabyte. json.h reads whole documents.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "files/block_reader.h"
#include "files/json.h"

namespace ridge::files {

struct JsonStreamLimits {
  // An element, and each other value of the object, stays below. Of duplicate keys the last counts.
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

}  // namespace ridge::files
