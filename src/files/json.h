// SPDX-License-Identifier: Apache-2.0
// Parses untrusted JSON text: strict grammar, bounded depth and size, no duplicate keys. There is
// no schema here; the readers of safetensors headers, indexes and model configurations use it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace ridge::files {

struct JsonLimits {
  int max_depth = 32;  // nested arrays and objects
  // Values in the whole document; each takes 16 to 100 bytes.
  int64_t max_values = int64_t{1} << 24;
  int64_t max_bytes = int64_t{256} << 20;  // a file has no more
  int64_t max_keys = int64_t{1} << 24;     // all objects have no more; each takes 100 bytes or more
};

// Throws a bad-file Error that names `source` if the text breaks the grammar (with the byte) or a
// limit.
nlohmann::json parse_json(std::string_view text,
                          std::string_view source,
                          const JsonLimits& limits = {});
// The document as a file keeps it. Bytes that are not UTF-8, as names of files may have, become
// U+FFFD.
std::string written_json(const nlohmann::ordered_json& document);
// The document as that file gives it back.
nlohmann::ordered_json as_written(const nlohmann::ordered_json& document);
nlohmann::json read_json(const std::filesystem::path& path, const JsonLimits& limits = {});

}  // namespace ridge::files
