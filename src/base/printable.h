// SPDX-License-Identifier: Apache-2.0
// Makes bytes from files and requests safe for messages, which are one line of ASCII, and for
// terminals. Not an encoder for JSON or HTML; their writers have their own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ridge {
inline namespace base {

// `bytes` in double quotes, with quotes, backslashes, control and non-ASCII bytes escaped. Cut
// after `limit` bytes, followed by the full length: "abc"... (70000 bytes).
std::string printable(std::string_view bytes, size_t limit = 80);

// Makes foreign text (file names, names in files, option values) one harmless line. Control
// characters become \xNN; invisible marks and marks that change the direction of text (U+202E,
// U+200B) become \uNNNN; bytes that are not UTF-8 become U+FFFD. Never throws. Messages quote with
// printable() instead. After `limit` bytes the text is cut and followed by its full length:
// abc... (70000 bytes).
inline constexpr size_t kLongestName = 200;
inline constexpr size_t kLongestMessage = 2000;  // the longest of our own messages lists the passes
inline constexpr size_t kWholeText = std::string_view::npos;  // names in JSON, for programs
std::string terminal_safe(std::string_view bytes, size_t limit = kLongestName);
// The same for text that a model generates: line ends, tabs and the marks stay.
std::string terminal_safe_text(std::string_view bytes);

}  // namespace base
}  // namespace ridge
