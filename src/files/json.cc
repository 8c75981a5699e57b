// SPDX-License-Identifier: Apache-2.0
// Parses a text or a file as one document.
#include "files/json.h"

#include "base/error.h"
#include "files/json_builder.h"
#include "files/mapped_file.h"

namespace ridge::files {
namespace {

// Refuses a text of too many keys or values before any of them takes memory. A colon that is in no
// string follows a key, and a comma is between two values.
void expect_within(std::string_view text, std::string_view source, const JsonLimits& limits) {
  const auto size = static_cast<int64_t>(text.size());
  // The shortest key takes 5 bytes with its value and its comma, the shortest value 2.
  if (size / 5 < limits.max_keys && size / 2 < limits.max_values) return;
  int64_t keys = 0, commas = 0;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"')
      is_string = !is_string;
    else if (is_string)
      i += c == '\\' ? 1 : 0;
    else if (c == ':')
      ++keys;
    else if (c == ',')
      ++commas;
  }
  if (keys > limits.max_keys)
    throw file_error("[{}] expected at most {} JSON keys, found {}", source, limits.max_keys, keys);
  if (commas >= limits.max_values)
    throw file_error("[{}] expected at most {} JSON values", source, limits.max_values);
}

}  // namespace

nlohmann::json parse_json(std::string_view text,
                          std::string_view source,
                          const JsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes)
    throw file_error("[{}] expected at most {} bytes of JSON, found {}", source, limits.max_bytes,
                     text.size());
  expect_within(text, source, limits);
  JsonBuilder builder(source, limits);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string written_json(const nlohmann::ordered_json& document) {
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

nlohmann::ordered_json as_written(const nlohmann::ordered_json& document) {
  return nlohmann::ordered_json::parse(written_json(document));
}

nlohmann::json read_json(const std::filesystem::path& path, const JsonLimits& limits) {
  const MappedFile file(path);
  return parse_json(file.text(), file.source(), limits);
}

}  // namespace ridge::files
