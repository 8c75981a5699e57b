// SPDX-License-Identifier: Apache-2.0
// Reads and writes text and token ids. Not a subcommand.
#include "apps/text_io.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "files/json.h"
#include "files/mapped_file.h"
#include "report/terminal.h"

namespace ridge::apps {
namespace {

constexpr size_t kMostTextBytes = size_t{256} << 20;
bool writes_to_terminal() {
  static const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  return is_terminal;
}

constexpr size_t kQuoted = 20;  // characters of a bad id shown in a message

std::vector<int32_t> ids_of_json(const std::string& text, const char* source) {
  nlohmann::json document = files::parse_json(text, source);
  const nlohmann::json& list =
      document.is_object() && document.contains("ids") ? document["ids"] : document;
  if (!list.is_array())
    throw usage_error("[{}] expected {{\"ids\": [...]}} or a list of numbers", source);
  std::vector<int32_t> ids;
  ids.reserve(list.size());
  for (const nlohmann::json& id : list) {
    if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
      throw usage_error("[{}] expected a token id, got {}", source, printable(id.dump(), kQuoted));
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

}  // namespace

std::string read_stdin(size_t most_bytes) {
  std::string text;
  std::array<char, size_t{1} << 16> part;
  // A short read is the end; another one would wait for a second Ctrl-D on a terminal.
  for (size_t size = part.size(); size == part.size();) {
    size = std::fread(part.data(), 1, part.size(), stdin);
    text.append(part.data(), size);
    if (text.size() > most_bytes)
      throw usage_error("[stdin] expected at most {}",
                        format_bytes(static_cast<int64_t>(most_bytes)));
  }
  if (std::ferror(stdin) != 0) throw runtime_error("[stdin] cannot read");
  return text;
}

std::string read_text(const std::string& path) {
  if (path == "-") return read_stdin(kMostTextBytes);
  files::MappedFile file(path);
  if (file.text().size() > kMostTextBytes)
    throw usage_error("[text] expected at most {}, {} has {}",
                      format_bytes(static_cast<int64_t>(kMostTextBytes)), printable(path),
                      format_bytes(static_cast<int64_t>(file.text().size())));
  return std::string(file.text());
}

std::vector<int32_t> parse_ids(const std::string& text, const char* source) {
  constexpr std::string_view kSpace = " \t\r\n";
  size_t at = text.find_first_not_of(kSpace);
  if (at != std::string::npos && (text[at] == '{' || text[at] == '['))
    return ids_of_json(text, source);
  std::vector<int32_t> ids;
  while (at != std::string::npos) {
    size_t end = std::min(text.find_first_of(" \t\r\n,", at), text.size());
    int32_t id = -1;
    auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc() || stop != text.data() + end || id < 0)
      throw usage_error("[{}] expected a token id, got {}", source,
                        printable(text.substr(at, end - at), kQuoted));
    ids.push_back(id);
    at = text.find_first_not_of(kSpace, end);
    if (at != std::string::npos && text[at] == ',')  // an id must follow
      at = std::min(text.find_first_not_of(kSpace, at + 1), text.size());
  }
  return ids;
}

void write_text(std::string_view text) {
  const bool is_escaped = writes_to_terminal();
  const std::string safe = is_escaped ? terminal_safe_text(text) : std::string();
  if (is_escaped) text = safe;
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void write_json(const nlohmann::ordered_json& json) {
  const std::string line =
      json.dump(-1, ' ', writes_to_terminal(), nlohmann::ordered_json::error_handler_t::replace) +
      "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
}

}  // namespace ridge::apps
