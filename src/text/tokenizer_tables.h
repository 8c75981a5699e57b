// SPDX-License-Identifier: Apache-2.0
// Tables that the checks of a specification build and the tokenizer then uses. Internal to text/.
#pragma once

#include <cstdint>
#include <string_view>

#include "text/pair_table.h"
#include "text/token_index.h"
#include "text/tokenizer_spec.h"
#include "text/utf8.h"

namespace ridge::text {

// The token that a pair joins to, and its priority: the lowest joins first, the leftmost among
// equals.
struct Merge {
  uint32_t priority = 0;
  int32_t result = kNoToken;
};

inline TokenType type_of(const TokenizerSpec& spec, int32_t id) {
  return spec.types.empty() ? TokenType::kNormal : spec.types[static_cast<size_t>(id)];
}

// Types that are searched for in the text before BPE (control and unknown tokens only when special
// tokens are parsed).
inline bool is_searched(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown ||
         type == TokenType::kUserDefined;
}

// The value of "<0xHH>", -1 for anything else.
int byte_of(std::string_view token);

// SentencePiece's visible space, U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

// The first character of a text, which is one symbol of SentencePiece text. A byte that is not
// valid UTF-8 is a character by itself, so that it does not absorb the space after it. `text` must
// not be empty.
inline std::string_view first_character(std::string_view text) {
  return text.substr(0, decode_utf8(text, 0).size);
}

// The bytes of a character (at most 4) as one number.
inline uint32_t packed(std::string_view character) {
  uint32_t key = 0;
  for (char c : character) key = (key << 8) | static_cast<uint8_t>(c);
  return key;
}

// Runs all checks but those of the merges, and returns the index of the tokens as written. Throws
// as `validate` does.
TokenIndex checked_index(const TokenizerSpec& spec);

// Checks the byte-level merges and returns them by pair of ids, with priority = rank. Empty for
// SentencePiece.
PairTable<Merge> checked_merges(const TokenizerSpec& spec, const TokenIndex& index);

}  // namespace ridge::text
