// SPDX-License-Identifier: Apache-2.0
// Unicode's normalization form C: composed characters, and combining marks in one order. Only NFC:
// no compatibility forms, no case folding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ridge::text {

// The text in NFC; nullopt if it already is. Bytes that are not valid UTF-8 stay as they are and
// combine with nothing. Time is linear in the text, except that n combining marks in a row take
// n log n.
std::optional<std::string> to_nfc(std::string_view text);

// Whether a character stays as it is in NFC in any text, and none before it combines with it. True
// for most letters, ideographs and symbols, false for marks and whenever this file does not know.
bool is_nfc_inert(char32_t value);

}  // namespace ridge::text
