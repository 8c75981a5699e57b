// SPDX-License-Identifier: Apache-2.0
// Builds the tables of a tokenizer from a checked specification.
#include "text/tokenizer_tables.h"

#include <algorithm>
#include <bit>

#include "text/byte_alphabet.h"

namespace ridge::text {
namespace {

// Preserves the order: the higher the score, the lower the number. Finite scores only.
uint32_t priority_of(float score) {
  auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // -0 becomes 0
  uint32_t ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return ~ascending;
}

// Appends the token with U+2581 replaced by a space.
void append_unescaped(std::string& out, std::string_view token) {
  for (size_t at = 0; at < token.size();) {
    size_t mark = std::min(token.find(kSpaceMark, at), token.size());
    out.append(token, at, mark - at);
    if (mark < token.size()) out.push_back(' ');
    at = mark + kSpaceMark.size();
  }
}

void append_decoded(std::string& out, const TokenizerSpec& spec, int32_t id) {
  const std::string& token = spec.tokens[static_cast<size_t>(id)];
  TokenType type = type_of(spec, id);
  if (type == TokenType::kControl || type == TokenType::kUnknown) {
    out.append(token);
  } else if (type == TokenType::kByte) {
    out.push_back(static_cast<char>(byte_of(token)));
  } else if (spec.kind == TokenizerKind::kSentencePieceBpe) {
    append_unescaped(out, token);
  } else {
    // A token outside the byte alphabet (for instance one added by hand) is used as written.
    std::optional<std::string> bytes =
        type == TokenType::kUserDefined ? std::nullopt : from_byte_alphabet(token);
    out.append(bytes ? *bytes : token);
  }
}

// Notes the characters before the marks of spaces inside a token.
void note_inner_spaces(TokenizerTables& t, std::string_view token) {
  if (token.find(kSpaceMark, 1) == std::string_view::npos) return;
  uint32_t previous = 0;
  for (size_t at = 0; at < token.size();) {
    std::string_view character = first_character(token.substr(at));
    if (at > 0 && character == kSpaceMark) t.before_space.push_back(previous);
    previous = packed(character);
    at += character.size();
  }
}

void build_byte_level(TokenizerTables& t) {
  t.covers_all_bytes = true;
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string written;
    append_utf8(written, byte_alphabet()[byte]);
    t.byte_tokens[byte] = t.index.find(written);
    t.covers_all_bytes = t.covers_all_bytes && t.byte_tokens[byte] >= 0;
  }
  t.cuts_at_spaces = t.spec.pre_tokenizer != PreTokenizer::kNone;
  if (!t.spec.whole_piece_first) return;
  t.whole_pieces = TokenIndex(t.spec.tokens.size());
  for (int32_t id = 0; id < t.vocab_size(); ++id)
    if (type_of(t.spec, id) == TokenType::kNormal) t.whole_pieces.insert(t.bytes_of(id), id);
}

void build_sentencepiece(TokenizerTables& t) {
  t.cuts_at_spaces = true;
  t.priorities.resize(t.spec.tokens.size());
  t.joins.resize(t.spec.tokens.size());
  for (size_t id = 0; id < t.spec.tokens.size(); ++id) {
    TokenType type = type_of(t.spec, static_cast<int32_t>(id));
    t.priorities[id] = priority_of(t.spec.scores[id]);
    // Merges never make a control or byte token, so text that merely looks like one stays text.
    t.joins[id] =
        type != TokenType::kControl && type != TokenType::kUnknown && type != TokenType::kByte;
    if (t.joins[id]) note_inner_spaces(t, t.spec.tokens[id]);
  }
  std::sort(t.before_space.begin(), t.before_space.end());
  t.before_space.erase(std::unique(t.before_space.begin(), t.before_space.end()),
                       t.before_space.end());
  for (uint32_t character : t.before_space)
    if (character < 0x80 && is_ascii_alphanumeric(static_cast<char>(character)))
      t.cuts_at_spaces = false;

  int32_t space = t.index.find(kSpaceMark);
  // If the mark itself is a token that is searched for in text, a space prefix cannot be told apart
  // from a mark in the text.
  t.covers_all_bytes =
      space >= 0 && t.joins[static_cast<size_t>(space)] && !is_searched(type_of(t.spec, space));
  for (int32_t id = 0; id < t.vocab_size(); ++id)
    if (type_of(t.spec, id) == TokenType::kByte)
      t.byte_tokens[static_cast<size_t>(byte_of(t.spec.tokens[static_cast<size_t>(id)]))] = id;
  for (int32_t& id : t.byte_tokens) {
    t.covers_all_bytes = t.covers_all_bytes && id != kNoToken;
    if (id == kNoToken) id = t.spec.unknown;
  }
}

// A special token with a space behind a letter must not be cut. A cut after one that ends in a
// letter would lose the space prefix of the text that follows it.
void check_cuts(TokenizerTables& t) {
  for (int32_t id = 0; id < t.vocab_size(); ++id) {
    const std::string_view token = t.spec.tokens[static_cast<size_t>(id)];
    if (token.empty() || !is_searched(type_of(t.spec, id))) continue;
    for (size_t i = 1; i < token.size(); ++i)
      if (token[i] == ' ' && is_ascii_alphanumeric(token[i - 1])) t.cuts_at_spaces = false;
    if (t.spec.add_space_prefix && is_ascii_alphanumeric(token.back())) t.cuts_at_spaces = false;
  }
}

}  // namespace

TokenizerTables make_tables(TokenizerSpec spec) {
  TokenizerTables t;
  t.index = checked_index(spec);
  t.merges = checked_merges(spec, t.index);
  t.spec = std::move(spec);
  t.byte_tokens.fill(kNoToken);
  const bool is_pieces = t.spec.kind == TokenizerKind::kSentencePieceBpe;
  t.spec.add_space_prefix = t.spec.add_space_prefix && is_pieces;
  t.decoded_begin.reserve(t.spec.tokens.size() + 1);
  for (int32_t id = 0; id < t.vocab_size(); ++id) {
    t.decoded_begin.push_back(static_cast<uint32_t>(t.decoded.size()));
    append_decoded(t.decoded, t.spec, id);
  }
  t.decoded_begin.push_back(static_cast<uint32_t>(t.decoded.size()));
  is_pieces ? build_sentencepiece(t) : build_byte_level(t);
  check_cuts(t);
  t.spec.merges = {};
  t.spec.scores = {};
  return t;
}

}  // namespace ridge::text
