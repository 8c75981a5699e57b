// SPDX-License-Identifier: Apache-2.0
// Escapes bytes.
#include "base/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/terminal_json.h"

namespace ridge {
inline namespace base {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) == 0x80u; }

// Length in bytes of the well-formed UTF-8 character (RFC 3629) at the start of the text; 0 if
// there is none.
size_t character_length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned first = byte(0);
  if (first < 0x80) return 1;
  size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if (!is_continuation(text[i])) return 0;
  unsigned second = byte(1);
  bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  bool no_character = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || no_character ? 0 : length;
}

// Characters that are invisible or reorder the text around them (Unicode 15: Default_Ignorable and
// Bidi_Control, without the emoji selectors).
bool is_mark(char32_t c) {
  return c == 0xAD || c == 0x34F || c == 0x61C || (c >= 0x115F && c <= 0x1160) ||
         (c >= 0x17B4 && c <= 0x17B5) || c == 0x180E || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0x3164 ||
         c == 0xFEFF || c == 0xFFA0 || (c >= 0xFFF0 && c <= 0xFFFB) ||
         (c >= 0x1BCA0 && c <= 0x1BCA3) || (c >= 0x1D173 && c <= 0x1D17A) ||
         (c >= 0xE0000 && c <= 0xE0FFF);
}

// Code point of a well-formed UTF-8 character.
char32_t code_point(std::string_view character) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0);
  char32_t value = byte(0) & (0xFFu >> (character.size() + 1));
  for (size_t i = 1; i < character.size(); ++i) value = value << 6 | (byte(i) & 0x3Fu);
  return value;
}

std::string disarmed(std::string_view bytes, bool is_text, size_t limit) {
  std::string text;
  const size_t size = bytes.size();
  while (!bytes.empty()) {
    // The escaped text is limited: an escape takes up to four times the bytes that it stands for.
    if (text.size() >= limit) return text + fmt::format("... ({} bytes)", size);
    const size_t length = character_length(bytes);
    const std::string_view character = bytes.substr(0, std::max<size_t>(length, 1));
    bytes.remove_prefix(character.size());
    if (length == 0) {
      text += "\uFFFD";
      continue;
    }
    const char32_t c = code_point(character);
    const bool is_control = c < 0x20 || (c >= 0x7F && c < 0xA0);
    if (is_text && (c == '\n' || c == '\t'))
      text += character;
    else if (is_control)
      text += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else if (!is_text && is_mark(c))
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      text += character;
  }
  return text;
}

}  // namespace

std::string printable(std::string_view bytes, size_t limit) {
  std::string text = "\"";
  for (const char c : bytes.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      fmt::format_to(std::back_inserter(text), "\\x{:02x}", byte);
    }
  }
  text += '"';
  if (bytes.size() > limit) text += fmt::format("... ({} bytes)", bytes.size());
  return text;
}

std::string terminal_safe(std::string_view bytes, size_t limit) {
  return disarmed(bytes, false, limit);
}

std::string terminal_safe_json(std::string json) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x7F; };
  if (std::ranges::all_of(json, is_ascii)) return json;
  std::string text;
  for (std::string_view left = json; !left.empty();) {
    const std::string_view character = left.substr(0, std::max<size_t>(character_length(left), 1));
    left.remove_prefix(character.size());
    const char32_t c = code_point(character);
    const bool is_escaped = (c >= 0x7F && c < 0xA0) || is_mark(c);
    if (!is_escaped)
      text += character;
    else if (c < 0x10000)
      text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else  // two halves of 10 bits (UTF-16)
      text += fmt::format("\\u{:04x}\\u{:04x}", 0xD800u + ((c - 0x10000u) >> 10),
                          0xDC00u + (c & 0x3FFu));
  }
  return text;
}

std::string terminal_safe_text(std::string_view bytes) { return disarmed(bytes, true, kWholeText); }

}  // namespace base
}  // namespace ridge
