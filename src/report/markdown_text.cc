// SPDX-License-Identifier: Apache-2.0
// Escaping.
#include "report/markdown_text.h"

#include <algorithm>

namespace ridge::report {

std::string plain(std::string_view text) {
  std::string escaped;
  for (char c : terminal_safe(text, kLongestMessage)) {
    if (std::string_view("\\`*_{}[]<>|#").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

// Uses a fence of one more backtick than the longest run of backticks in the text.
std::string code(std::string_view text) {
  std::string safe = terminal_safe(text, kLongestMessage);
  size_t longest = 0, run = 0;
  for (char c : safe) longest = std::max(longest, run = c == '`' ? run + 1 : 0);
  std::string fence(longest + 1, '`');
  return longest > 0 ? fence + " " + safe + " " + fence : fence + safe + fence;
}

// Table escapes the bars; this escapes `<`, so that markup in a cell stays text.
std::string table_text(const Table& table) {
  std::string text;
  for (char c : table.markdown()) text += c == '<' ? std::string("&lt;") : std::string(1, c);
  return text;
}

}  // namespace ridge::report
