// SPDX-License-Identifier: Apache-2.0
// Parses a text or a file as one document.
#include "files/json.h"

#include "base/error.h"
#include "files/json_builder.h"
#include "files/mapped_file.h"

namespace ridge::files {

nlohmann::json parse_json(std::string_view text,
                          std::string_view source,
                          const JsonLimits& limits) {
  if (static_cast<int64_t>(text.size()) > limits.max_bytes)
    throw file_error("[{}] expected at most {} bytes of JSON, found {}", source, limits.max_bytes,
                     text.size());
  JsonBuilder builder(source, limits);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

nlohmann::json read_json(const std::filesystem::path& path, const JsonLimits& limits) {
  const MappedFile file(path);
  return parse_json(file.text(), file.source(), limits);
}

}  // namespace ridge::files
