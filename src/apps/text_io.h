// SPDX-License-Identifier: Apache-2.0
// Text and token ids from options, files and stdin, and text on stdout. Not a subcommand.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::apps {

// Reads all of stdin. More than `most_bytes` is a usage Error.
std::string read_stdin(size_t most_bytes);
// Reads the text of a file, or of stdin for "-". More than 256 MiB is a usage Error.
std::string read_text(const std::string& path);

// Parses token ids separated by spaces or commas, or JSON in the format of `ridge tokenizer encode
// --json`. Errors name `source`: an option or "stdin".
std::vector<int32_t> parse_ids(const std::string& text, const char* source);

// Writes text from a file or a model to stdout. On a terminal, control characters except tabs and
// line ends are escaped; a file or a pipe gets the text unchanged.
void write_text(std::string_view text);

// The same as a line of JSON, which escapes in its own way: a terminal gets ASCII alone.
void write_json(const nlohmann::ordered_json& json);

}  // namespace ridge::apps
