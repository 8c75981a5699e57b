// SPDX-License-Identifier: Apache-2.0
// Converts text to token ids and back, for byte-level BPE (GPT-2, Llama 3, SmolLM, Qwen)
// and SentencePiece-style BPE (Llama 2, Gemma). The ids are those of llama.cpp, and of tiktoken for
// GPT-2; for Qwen those of Hugging Face's tokenizers, because llama.cpp does not normalize.
// Immutable: any number of threads may share one object.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/special_finder.h"
#include "text/tokenizer_tables.h"

namespace ridge::text {

// The bytes [begin, end) of a text.
struct TextRange {
  size_t begin = 0;
  size_t end = 0;
};

struct EncodeOptions {
  bool parse_special = false;  // control tokens written in the text become their ids
  // With parse_special: disjoint parts of the text, in order, whose control tokens stay text.
  std::span<const TextRange> plain = {};
  bool add_bos = false;  // usage_error if the tokenizer has none
  bool add_eos = false;
  bool continuation = false;  // the text continues an earlier one: no space prefix at its start
};

struct DecodeOptions {
  bool special = false;       // control and unknown tokens appear as text; else they are left out
  bool continuation = false;  // the ids continue earlier ones: the first space is kept
};

class Tokenizer {
 public:
  // Throws as `validate` does.
  explicit Tokenizer(TokenizerSpec spec);

  // Encodes any bytes, in O(n log n). Bytes that the vocabulary cannot express (some byte-level
  // vocabularies lack a few, see `covers_all_bytes`) are left out, as in llama.cpp, or become the
  // unknown token (SentencePiece). Texts may have at most kMaxTextBytes.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Returns bytes, which need not be UTF-8. Throws usage_error for an id out of range. The inverse
  // of encode for every text that the vocabulary covers (also with add_space_prefix; U+2581 becomes
  // a space, and a text that is normalized comes back in NFC).
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // The bytes of one id in decoded text; special tokens as they are written.
  std::string_view token_bytes(int32_t id) const;
  // True for control and unknown tokens.
  bool is_special(int32_t id) const;
  // Whether a new text begins after this id: true for special and user-defined tokens.
  bool starts_text_after(int32_t id) const;
  // The id of a token, spelled as in the specification; nullopt if there is none.
  std::optional<int32_t> find(std::string_view token) const;

  // The first position at or after `at` where `text` may be cut without changing its ids (the right
  // part encoded with `continuation`), or text.size().
  size_t safe_cut(std::string_view text, size_t at) const;

  int32_t vocab_size() const { return t_.vocab_size(); }
  // True if decode restores every text, or its NFC if the tokenizer normalizes.
  bool covers_all_bytes() const { return t_.covers_all_bytes; }
  // The specification without merges and scores, which are kept in tables.
  const TokenizerSpec& spec() const { return t_.spec; }

  static constexpr size_t kMaxTextBytes = size_t{1} << 30;

 private:
  // The special tokens that the options let stand for their ids, from left to right.
  std::vector<SpecialMatch> specials(std::string_view text, const EncodeOptions& options) const;
  void check_id(int32_t id) const;

  TokenizerTables t_;
  SpecialFinder user_defined_;
  SpecialFinder all_special_;
};

}  // namespace ridge::text
