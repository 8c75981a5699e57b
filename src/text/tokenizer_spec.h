// SPDX-License-Identifier: Apache-2.0
// A tokenizer as plain data, filled from a model file or by training. Hostile until `validate` has
// passed; holds no algorithm.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/pretokenizer.h"

namespace ridge::text {

enum class TokenizerKind : uint8_t {
  kByteLevelBpe,      // GPT-2, Llama 3, SmolLM: ranked merges of bytes
  kSentencePieceBpe,  // Llama 2, Gemma: the joined text with the
                      // best score, bytes where nothing fits
};

// GGUF's token types (its numbers 1 to 6, in this order).
enum class TokenType : uint8_t {
  kNormal,
  kUnknown,      // stands for what the vocabulary lacks
  kControl,      // found in text only when special tokens are parsed; not part of decoded text
  kUserDefined,  // found in text always, before anything else
  kUnused,
  kByte,  // "<0xHH>": one byte (SentencePiece)
};

inline constexpr int32_t kNoToken = -1;

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::kByteLevelBpe;
  PreTokenizer pre_tokenizer = PreTokenizer::kNone;  // byte-level only

  // By id, as files write them: byte-level tokens in GPT-2's byte alphabet, SentencePiece tokens
  // with U+2581 for the space; control and user-defined tokens as they stand in text. An empty
  // string is a hole.
  std::vector<std::string> tokens;
  std::vector<TokenType> types;  // one each, or empty: all normal

  // SentencePiece: one each; of two neighbours whose joined text is a token, the highest score
  // joins first (a tokenizer.json with ranked merges maps to score = -rank of the first merge that
  // makes the token).
  std::vector<float> scores;

  // Byte-level: "left right" in the byte alphabet, best first.
  std::vector<std::string> merges;
  // A piece that is a token skips the merges ("ignore_merges" of Llama 3)
  bool whole_piece_first = false;

  // SentencePiece: a space before the text and after each special token
  bool add_space_prefix = false;
  bool add_bos = false;  // what the model expects; encode adds it only when asked
  bool add_eos = false;

  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  int32_t unknown = kNoToken;
  int32_t padding = kNoToken;
  std::vector<int32_t> end_of_generation;  // end of turn, of message, of text: any of them stops
};

// Limits that no real file comes near; beyond them a file is refused before memory is spent on it.
inline constexpr size_t kMaxTokens = size_t{1} << 24;
inline constexpr size_t kMaxTokenBytes = size_t{1} << 12;
inline constexpr size_t kMaxVocabularyBytes = size_t{1} << 30;
// Control and user-defined tokens are looked for at every place of a text: their length is a factor
// of the time that a hostile text can take.
inline constexpr size_t kMaxSpecialTokenBytes = 512;

// Throws file_error that names the field: sizes, duplicate tokens, scores that are not finite, ids
// out of range, malformed or duplicate byte tokens, merges with empty, unknown or repeated pairs.
void validate(const TokenizerSpec& spec);

}  // namespace ridge::text
