// SPDX-License-Identifier: Apache-2.0
// UTF-8 from bytes that may be invalid: decoding, validation, and the three character classes that
// pre-tokenizers use. No normalisation, no case folding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridge::text {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

struct CodePoint {
  char32_t value;  // kReplacement if the bytes are not valid UTF-8
  uint8_t size;    // bytes taken: 1 to 4, and 1 for a byte that begins no valid sequence
  bool valid;
};

// The code point that begins at text[at]; at < text.size(). Overlong forms, surrogates and values
// over U+10FFFF are invalid (Unicode 15, table 3-7).
CodePoint decode_utf8(std::string_view text, size_t at);

bool is_valid_utf8(std::string_view text);

// Bytes at the end of `text` (0 to 3) that begin a sequence which more bytes could still complete.
size_t incomplete_suffix_bytes(std::string_view text);

// `value` must be a Unicode scalar value.
void append_utf8(std::string& out, char32_t value);

// `text` with each maximal invalid part replaced by one U+FFFD.
std::string to_valid_utf8(std::string_view text);

enum class CharClass : uint8_t {
  kOther,
  kLetter,  // \p{L}
  kNumber,  // \p{N}
  kSpace,   // the Unicode property White_Space
};

// Letters and numbers are from PCRE2's tables, read once per page of 256 code points and cached.
// Thread-safe.
CharClass char_class(char32_t value);

}  // namespace ridge::text
