// SPDX-License-Identifier: Apache-2.0
// Text and token ids from options, files and stdin, and text on stdout. Not a subcommand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::apps {

// All of stdin. A usage Error for more than `most_bytes`.
std::string read_stdin(size_t most_bytes);
// The text of a file, or of stdin for "-". A usage Error for more than 256 MiB.
std::string read_text(const std::string& path);

// Token ids separated by spaces or commas, or JSON as `ridge tokenizer encode --json` prints it.
// Errors name `source`: an option or "stdin".
std::vector<int32_t> parse_ids(const std::string& text, const char* source);

// Writes text from a file or a model to stdout. A terminal gets no control characters but tabs and
// line ends; a file or a pipe gets the text unchanged.
void write_text(std::string_view text);

// The words of `text` in lines of at most `columns`, each after `indent` and with a newline at its
// end.
std::string wrap_lines(std::string_view text, size_t columns, std::string_view indent = "");

}  // namespace ridge::apps
