// SPDX-License-Identifier: Apache-2.0
// Makes bytes from files and requests safe for messages: always one line of ASCII. Not an encoder
// for JSON or HTML; their writers have their own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ridge {
inline namespace base {

// `bytes` in double quotes, with quotes, backslashes, control and non-ASCII bytes escaped. Cut
// after `limit` bytes, followed by the full length: "abc"... (70000 bytes).
std::string printable(std::string_view bytes, size_t limit = 80);

}  // namespace base
}  // namespace ridge
