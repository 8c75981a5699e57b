// SPDX-License-Identifier: Apache-2.0
// A tokenizer as plain data, filled from a model file or by training. Untrusted until `validate`
// has passed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/pretokenizer.h"

namespace ridge::text {

enum class TokenizerKind : uint8_t {
  kByteLevelBpe,      // GPT-2, Llama 3, SmolLM, Qwen: ranked merges of bytes
  kSentencePieceBpe,  // Llama 2, Gemma: the joined text with the best score, bytes as fallback
};

// GGUF's token types (its numbers 1 to 6, in this order).
enum class TokenType : uint8_t {
  kNormal,
  kUnknown,      // replaces text that the vocabulary lacks
  kControl,      // found in text only when special tokens are parsed; not part of decoded text
  kUserDefined,  // found in text always, before anything else
  kUnused,
  kByte,  // "<0xHH>": one byte (SentencePiece)
};

inline constexpr int32_t kNoToken = -1;

struct TokenizerSpec {
  TokenizerKind kind = TokenizerKind::kByteLevelBpe;
  PreTokenizer pre_tokenizer = PreTokenizer::kNone;  // byte-level only
  // Byte-level: the text between tokens that are searched for is brought to NFC first (Qwen).
  bool nfc = false;

  // Indexed by id, spelled as in files: byte-level tokens in GPT-2's byte alphabet, SentencePiece
  // tokens with U+2581 for the space, control and user-defined tokens as in text. An empty string
  // is an unused id.
  std::vector<std::string> tokens;
  std::vector<TokenType> types;  // one per token; empty if all are normal

  // SentencePiece: one per token. Of all adjacent symbols whose joined text is a token, the highest
  // score joins first (a tokenizer.json with ranked merges maps to score = -rank of the first merge
  // that makes the token).
  std::vector<float> scores;

  // Byte-level: "left right" in the byte alphabet, best first.
  std::vector<std::string> merges;
  // A piece that is a token skips the merges ("ignore_merges" of Llama 3).
  bool whole_piece_first = false;

  // SentencePiece: a space before the text and after each special token.
  bool add_space_prefix = false;
  bool add_bos = false;  // the model expects it; encode adds it only if its options request it
  bool add_eos = false;

  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  int32_t unknown = kNoToken;
  int32_t padding = kNoToken;
  std::vector<int32_t> end_of_generation;  // end of turn, message or text; each stops generation
};

// Limits far above any real file. A file beyond them is rejected before memory is allocated for it.
inline constexpr size_t kMaxTokens = size_t{1} << 24;
inline constexpr size_t kMaxTokenBytes = size_t{1} << 12;
inline constexpr size_t kMaxVocabularyBytes = size_t{1} << 30;
// Control and user-defined tokens are searched for at every position of a text, so their length is
// a factor of the time that a malicious text can take.
inline constexpr size_t kMaxSpecialTokenBytes = 512;

// Throws file_error that names the invalid field: sizes, duplicate tokens, scores that are not
// finite, ids out of range, malformed byte tokens, merges with empty, unknown or repeated pairs.
void validate(const TokenizerSpec& spec);

// Identifies a tokenizer: the same vocabulary, merges and special tokens give the same hash.
std::string tokenizer_hash(const TokenizerSpec& spec);

}  // namespace ridge::text
