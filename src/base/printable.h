// SPDX-License-Identifier: Apache-2.0
// Bytes from files and requests, made safe for messages: one line of ASCII whatever they hold.
// Not an encoder of JSON or HTML; the writers have their own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ridge {
inline namespace base {

// "text" in double quotes: quote, backslash, control and non-ASCII bytes as escapes, cut after
// `limit` bytes with the full length named: "abc"... (70000 bytes).
std::string printable(std::string_view bytes, size_t limit = 80);

}  // namespace base
}  // namespace ridge
