// SPDX-License-Identifier: Apache-2.0
// Reads ids one after the other, or a JSON list.
#include "text/id_list.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"

namespace ridge::text {
namespace {

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

}  // namespace ridge::text
