// SPDX-License-Identifier: Apache-2.0
// The tokens of all bytes, with which a vocabulary covers every text.
#pragma once

#include <string>

#include "text/byte_alphabet.h"
#include "text/tokenizer_spec.h"

namespace ridge::fuzz {

// Appends 256 tokens in the order of the bytes.
inline void add_all_bytes(text::TokenizerSpec& spec) {
  const bool pieces = spec.kind == text::TokenizerKind::kSentencePieceBpe;
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kHex = "0123456789ABCDEF";
    spec.tokens.push_back(pieces ? std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"
                                 : text::to_byte_alphabet(std::string(1, static_cast<char>(byte))));
    spec.types.push_back(pieces ? text::TokenType::kByte : text::TokenType::kNormal);
    if (pieces) spec.scores.push_back(0);
  }
}

}  // namespace ridge::fuzz
