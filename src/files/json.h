// SPDX-License-Identifier: Apache-2.0
// JSON text from outside to a document: strict, bounded in depth and size, duplicate keys refused.
// It knows no schema; safetensors headers, indexes and model configurations are read on top of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

namespace ridge::files {

struct JsonLimits {
  int max_depth = 32;  // nested arrays and objects
  // Values in the whole document; each takes 16 to 100 bytes
  int64_t max_values = int64_t{1} << 24;
  int64_t max_bytes = int64_t{256} << 20;  // of a file
};

// A bad-file Error names `source` and the byte where the text breaks the grammar or a limit.
nlohmann::json parse_json(std::string_view text,
                          std::string_view source,
                          const JsonLimits& limits = {});
nlohmann::json read_json(const std::filesystem::path& path, const JsonLimits& limits = {});

}  // namespace ridge::files
