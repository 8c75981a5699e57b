// SPDX-License-Identifier: Apache-2.0
// Tables that are built from a specification, and that the tokenizer then uses. Internal to text/.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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

struct TokenizerTables {
  TokenizerSpec spec;       // without merges and scores
  TokenIndex index;         // tokens as written
  PairTable<Merge> merges;  // byte-level
  TokenIndex whole_pieces;  // byte-level with whole_piece_first: normal tokens by their bytes
  std::array<int32_t, 256> byte_tokens{};
  std::vector<uint32_t> priorities;     // SentencePiece: by id, from the scores
  std::vector<bool> joins;              // SentencePiece: tokens that merges may make
  std::vector<uint32_t> before_space;   // SentencePiece: characters before U+2581 inside a token
  std::string decoded;                  // the bytes of all tokens, one after the other
  std::vector<uint32_t> decoded_begin;  // V + 1 offsets
  bool covers_all_bytes = false;
  // Whether a text may be cut before a space that follows a letter or a digit of ASCII.
  bool cuts_at_spaces = false;

  int32_t vocab_size() const { return static_cast<int32_t>(spec.tokens.size()); }
  std::string_view bytes_of(int32_t id) const {
    const uint32_t* begin = &decoded_begin[static_cast<size_t>(id)];
    return std::string_view(decoded).substr(begin[0], begin[1] - begin[0]);
  }
};

inline bool is_ascii_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Throws as `validate` does.
TokenizerTables make_tables(TokenizerSpec spec);

}  // namespace ridge::text
