// SPDX-License-Identifier: Apache-2.0
// GPT-2's alphabet: each of the 256 bytes as one printable character, so that vocabularies of bytes
// can be written as text. Bytes that print in Latin-1 represent themselves; the others map to
// U+0100 and up, in order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ridge::text {

// The character of each byte.
const std::array<char32_t, 256>& byte_alphabet();

// The 256 bytes in the order of GPT-2's vocabulary: first those that print, then the others.
const std::array<uint8_t, 256>& byte_alphabet_order();

std::string to_byte_alphabet(std::string_view bytes);

// The bytes that `written` represents; nullopt if a character is outside the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view written);

}  // namespace ridge::text
