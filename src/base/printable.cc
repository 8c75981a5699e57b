// SPDX-License-Identifier: Apache-2.0
// Escapes bytes for messages.
#include "base/printable.h"

#include <fmt/format.h>

#include <iterator>

namespace ridge {
inline namespace base {

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

}  // namespace base
}  // namespace ridge
