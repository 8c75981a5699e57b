// SPDX-License-Identifier: Apache-2.0
// Builds the tokenizer's tables from a checked specification, and decodes.
#include "text/tokenizer.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

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

bool is_ascii_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

Tokenizer::Tokenizer(TokenizerSpec spec) : spec_(std::move(spec)), index_(checked_index(spec_)) {
  merges_ = checked_merges(spec_, index_);
  byte_tokens_.fill(kNoToken);
  spec_.add_space_prefix = spec_.add_space_prefix && spec_.kind == TokenizerKind::kSentencePieceBpe;
  decoded_begin_.reserve(spec_.tokens.size() + 1);
  for (int32_t id = 0; id < vocab_size(); ++id) {
    decoded_begin_.push_back(static_cast<uint32_t>(decoded_.size()));
    append_decoded(decoded_, spec_, id);
  }
  decoded_begin_.push_back(static_cast<uint32_t>(decoded_.size()));
  if (spec_.kind == TokenizerKind::kByteLevelBpe)
    build_byte_level();
  else
    build_sentencepiece();
  build_specials();
  spec_.merges = {};
  spec_.scores = {};
}

void Tokenizer::build_byte_level() {
  covers_all_bytes_ = true;
  for (size_t byte = 0; byte < 256; ++byte) {
    std::string written;
    append_utf8(written, byte_alphabet()[byte]);
    byte_tokens_[byte] = index_.find(written);
    covers_all_bytes_ = covers_all_bytes_ && byte_tokens_[byte] >= 0;
  }
  cuts_at_spaces_ = spec_.pre_tokenizer != PreTokenizer::kNone;
  if (!spec_.whole_piece_first) return;
  pieces_ = TokenIndex(spec_.tokens.size());
  for (int32_t id = 0; id < vocab_size(); ++id)
    if (type_of(spec_, id) == TokenType::kNormal) pieces_.insert(token_bytes(id), id);
}

void Tokenizer::build_sentencepiece() {
  cuts_at_spaces_ = true;
  priorities_.resize(spec_.tokens.size());
  joins_.resize(spec_.tokens.size());
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    TokenType type = type_of(spec_, static_cast<int32_t>(id));
    priorities_[id] = priority_of(spec_.scores[id]);
    // Merges never make a control or byte token, so text that merely looks like one stays text.
    joins_[id] =
        type != TokenType::kControl && type != TokenType::kUnknown && type != TokenType::kByte;
    if (joins_[id]) note_inner_spaces(spec_.tokens[id]);
  }
  std::sort(before_space_.begin(), before_space_.end());
  before_space_.erase(std::unique(before_space_.begin(), before_space_.end()), before_space_.end());
  for (uint32_t character : before_space_)
    if (character < 0x80 && is_ascii_alphanumeric(static_cast<char>(character)))
      cuts_at_spaces_ = false;

  int32_t space = index_.find(kSpaceMark);
  // If the mark itself is a token that is searched for in text, a space prefix cannot be told apart
  // from a mark in the text.
  covers_all_bytes_ =
      space >= 0 && joins_[static_cast<size_t>(space)] && !is_searched(type_of(spec_, space));
  for (int32_t id = 0; id < vocab_size(); ++id)
    if (type_of(spec_, id) == TokenType::kByte)
      byte_tokens_[static_cast<size_t>(byte_of(spec_.tokens[static_cast<size_t>(id)]))] = id;
  for (int32_t& id : byte_tokens_) {
    covers_all_bytes_ = covers_all_bytes_ && id != kNoToken;
    if (id == kNoToken) id = spec_.unknown;
  }
}

void Tokenizer::note_inner_spaces(std::string_view token) {
  if (token.find(kSpaceMark, 1) == std::string_view::npos) return;
  uint32_t previous = 0;
  for (size_t at = 0; at < token.size();) {
    std::string_view character = first_character(token.substr(at));
    if (at > 0 && character == kSpaceMark) before_space_.push_back(previous);
    previous = packed(character);
    at += character.size();
  }
}

void Tokenizer::build_specials() {
  std::vector<std::pair<std::string_view, int32_t>> user_defined;
  std::vector<std::pair<std::string_view, int32_t>> all;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    std::string_view token = spec_.tokens[static_cast<size_t>(id)];
    TokenType type = type_of(spec_, id);
    if (token.empty() || !is_searched(type)) continue;
    all.emplace_back(token, id);
    if (type == TokenType::kUserDefined) user_defined.emplace_back(token, id);
  }
  for (const auto& [token, id] : all) {
    for (size_t i = 1; i < token.size(); ++i)
      if (token[i] == ' ' && is_ascii_alphanumeric(token[i - 1])) cuts_at_spaces_ = false;
    // A cut after such a token would lose the space prefix of the text that follows it.
    if (spec_.add_space_prefix && is_ascii_alphanumeric(token.back())) cuts_at_spaces_ = false;
  }
  user_defined_ = SpecialFinder(std::move(user_defined));
  all_special_ = SpecialFinder(std::move(all));
}

size_t Tokenizer::safe_cut(std::string_view text, size_t at) const {
  if (!cuts_at_spaces_) return text.size();
  for (size_t i = std::max<size_t>(at, 1); i < text.size(); ++i)
    if (text[i] == ' ' && is_ascii_alphanumeric(text[i - 1])) return i;
  return text.size();
}

void Tokenizer::check_id(int32_t id) const {
  if (id < 0 || id >= vocab_size())
    throw usage_error("[tokenizer] expected a token id below {}, got {}", vocab_size(), id);
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  check_id(id);
  uint32_t begin = decoded_begin_[static_cast<size_t>(id)];
  return std::string_view(decoded_).substr(begin,
                                           decoded_begin_[static_cast<size_t>(id) + 1] - begin);
}

bool Tokenizer::is_special(int32_t id) const {
  check_id(id);
  TokenType type = type_of(spec_, id);
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

bool Tokenizer::starts_text_after(int32_t id) const {
  check_id(id);
  return is_searched(type_of(spec_, id));
}

std::optional<int32_t> Tokenizer::find(std::string_view token) const {
  int32_t id = index_.find(token);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, const DecodeOptions& options) const {
  std::string out;
  // encode puts a space before the text and after each special token. It is dropped where the next
  // text begins.
  bool drop_space = spec_.add_space_prefix && !options.continuation;
  for (int32_t id : ids) {
    std::string_view bytes = token_bytes(id);
    if (is_searched(type_of(spec_, id))) {
      if (options.special || !is_special(id)) out.append(bytes);
      drop_space = spec_.add_space_prefix;
      continue;
    }
    if (drop_space && !bytes.empty() && bytes[0] == ' ') bytes.remove_prefix(1);
    drop_space = false;
    out.append(bytes);
  }
  return out;
}

}  // namespace ridge::text
