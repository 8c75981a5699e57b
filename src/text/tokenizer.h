// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back, for byte-level BPE (GPT-2, Llama 3, SmolLM) and SentencePiece-style
// BPE (Llama 2, Gemma). Same ids as llama.cpp, and as tiktoken for GPT-2. Immutable: one object
// serves any number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/pair_table.h"
#include "text/special_finder.h"
#include "text/token_index.h"
#include "text/tokenizer_spec.h"
#include "text/tokenizer_tables.h"

namespace ridge::text {

struct EncodeOptions {
  bool parse_special = false;  // control tokens written in the text become their ids
  bool add_bos = false;        // usage_error where the tokenizer has none
  bool add_eos = false;
  bool continuation = false;  // the text goes on from an earlier one: no space prefix at its start
};

struct DecodeOptions {
  bool special = false;       // control and unknown tokens appear as text; else they are left out
  bool continuation = false;  // ids go on from earlier ones: the first space is kept
};

class Tokenizer {
 public:
  // Throws as `validate` does.
  explicit Tokenizer(TokenizerSpec spec);

  // Any bytes; O(n log n). Bytes that the vocabulary cannot express (some byte-level vocabularies
  // lack a few, see `covers_all_bytes`) are left out, as llama.cpp does, or become the unknown
  // token (SentencePiece). Texts of at most kMaxTextBytes.
  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;

  // Bytes, which need not be UTF-8. usage_error for an id out of
  // range. The inverse of encode for every text that the vocabulary
  // covers (with add_space_prefix too; U+2581 comes back as a space).
  std::string decode(std::span<const int32_t> ids, const DecodeOptions& options = {}) const;

  // What one id stands for in decoded text, special tokens as they are written.
  std::string_view token_bytes(int32_t id) const;
  // Control and unknown tokens.
  bool is_special(int32_t id) const;
  // True where the text after this id begins anew: after special and user-defined tokens.
  bool starts_text_after(int32_t id) const;
  // A token as the specification writes it; nothing where there is none.
  std::optional<int32_t> find(std::string_view token) const;

  // The first place from `at` on where `text` may be cut without changing its ids (the right part
  // encoded with `continuation`), or text.size().
  size_t safe_cut(std::string_view text, size_t at) const;

  int32_t vocab_size() const { return static_cast<int32_t>(spec_.tokens.size()); }
  // True where decode gives back every text.
  bool covers_all_bytes() const { return covers_all_bytes_; }
  // The specification, without merges and scores (they live on in tables).
  const TokenizerSpec& spec() const { return spec_; }

  static constexpr size_t kMaxTextBytes = size_t{1} << 30;

 private:
  class Encoder;

  void build_byte_level();
  void build_sentencepiece();
  void note_inner_spaces(std::string_view token);
  void build_specials();
  void check_id(int32_t id) const;

  TokenizerSpec spec_;
  TokenIndex index_;         // tokens as written
  PairTable<Merge> merges_;  // byte-level
  TokenIndex pieces_;        // byte-level with whole_piece_first: normal tokens by their bytes
  std::array<int32_t, 256> byte_tokens_{};
  std::vector<uint32_t> priorities_;  // SentencePiece: by id, from the scores
  std::vector<bool> joins_;           // SentencePiece: tokens that merges may make
  // SentencePiece: characters that U+2581 follows inside a token
  std::vector<uint32_t> before_space_;
  SpecialFinder user_defined_;
  SpecialFinder all_special_;
  std::string decoded_;                  // the bytes of all tokens, one after the other
  std::vector<uint32_t> decoded_begin_;  // V + 1 offsets
  bool covers_all_bytes_ = false;
  bool cuts_at_spaces_ = false;
};

}  // namespace ridge::text
