// SPDX-License-Identifier: Apache-2.0
// Checks a tokenizer specification, one function per field, and hashes it.
#include "text/tokenizer_spec.h"

#include <bitset>
#include <cmath>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/printable.h"
#include "files/hash.h"
#include "text/pair_table.h"
#include "text/token_index.h"
#include "text/tokenizer_tables.h"

namespace ridge::text {
namespace {

constexpr size_t kShown = 40;  // bytes of a token in a message

void check_sizes(const TokenizerSpec& spec) {
  size_t count = spec.tokens.size();
  if (count == 0 || count > kMaxTokens)
    throw file_error("[tokenizer] tokens: expected 1 to {}, got {}", kMaxTokens, count);
  if (!spec.types.empty() && spec.types.size() != count)
    throw file_error("[tokenizer] token types: expected {}, one per token, got {}", count,
                     spec.types.size());
  if (spec.merges.size() > kMaxTokens)
    throw file_error("[tokenizer] merges: expected at most {}, got {}", kMaxTokens,
                     spec.merges.size());
  size_t bytes = 0;
  for (size_t id = 0; id < count; ++id) {
    size_t size = spec.tokens[id].size();
    size_t limit = is_searched(type_of(spec, static_cast<int32_t>(id))) ? kMaxSpecialTokenBytes
                                                                        : kMaxTokenBytes;
    if (size > limit)
      throw file_error("[tokenizer] token {}: expected at most {} bytes, got {}", id, limit, size);
    bytes += size;
  }
  if (bytes > kMaxVocabularyBytes)
    throw file_error("[tokenizer] tokens: expected at most {} bytes in all, got {}",
                     kMaxVocabularyBytes, bytes);
}

void check_types(const TokenizerSpec& spec) {
  for (size_t id = 0; id < spec.types.size(); ++id) {
    TokenType type = spec.types[id];
    if (type > TokenType::kByte)
      throw file_error("[tokenizer] token {}: unknown type {}", id, static_cast<int>(type));
    if (type == TokenType::kByte && byte_of(spec.tokens[id]) < 0)
      throw file_error("[tokenizer] token {}: a byte token is written <0xHH>, got {}", id,
                       printable(spec.tokens[id], kShown));
  }
}

void check_scores(const TokenizerSpec& spec) {
  if (spec.kind != TokenizerKind::kSentencePieceBpe) return;
  if (spec.scores.size() != spec.tokens.size())
    throw file_error("[tokenizer] scores: expected {}, one per token, got {}", spec.tokens.size(),
                     spec.scores.size());
  for (size_t id = 0; id < spec.scores.size(); ++id)
    if (!std::isfinite(spec.scores[id]))
      throw file_error("[tokenizer] score of token {}: expected a finite number, got {}", id,
                       spec.scores[id]);
}

void check_id(const TokenizerSpec& spec, const char* field, int32_t id) {
  if (id < kNoToken || id >= static_cast<int64_t>(spec.tokens.size()))
    throw file_error("[tokenizer] {}: expected an id below {}, got {}", field, spec.tokens.size(),
                     id);
}

void check_ids(const TokenizerSpec& spec) {
  check_id(spec, "bos token", spec.bos);
  check_id(spec, "eos token", spec.eos);
  check_id(spec, "unknown token", spec.unknown);
  check_id(spec, "padding token", spec.padding);
  for (int32_t id : spec.end_of_generation) {
    check_id(spec, "end-of-generation token", id);
    if (id == kNoToken)
      throw file_error("[tokenizer] end-of-generation token: expected an id, got none");
  }
}

// SentencePiece falls back to byte tokens. Without all of them it needs an unknown token.
void check_fallback(const TokenizerSpec& spec) {
  if (spec.kind != TokenizerKind::kSentencePieceBpe || spec.unknown != kNoToken) return;
  std::bitset<256> bytes;
  for (size_t id = 0; id < spec.types.size(); ++id)
    if (spec.types[id] == TokenType::kByte)
      bytes.set(static_cast<size_t>(byte_of(spec.tokens[id])));
  if (!bytes.all())
    throw file_error(
        "[tokenizer] expected an unknown token or tokens of all 256 bytes to fall back to, got "
        "tokens of {} bytes",
        bytes.count());
}

}  // namespace

int byte_of(std::string_view token) {
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  int high = digit(token[3]);
  int low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

TokenIndex checked_index(const TokenizerSpec& spec) {
  check_sizes(spec);
  check_types(spec);
  check_scores(spec);
  check_ids(spec);
  check_fallback(spec);
  TokenIndex index(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id)
    if (!index.insert(spec.tokens[id], static_cast<int32_t>(id)))
      throw file_error("[tokenizer] token {}: {} is already token {}", id,
                       printable(spec.tokens[id], kShown), index.find(spec.tokens[id]));
  return index;
}

PairTable<Merge> checked_merges(const TokenizerSpec& spec, const TokenIndex& index) {
  PairTable<Merge> table;
  if (spec.kind != TokenizerKind::kByteLevelBpe) return table;
  table.reserve(spec.merges.size());
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    std::string_view merge = spec.merges[rank];
    size_t space = merge.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == merge.size() ||
        merge.find(' ', space + 1) != std::string_view::npos)
      throw file_error("[tokenizer] merge {}: expected two tokens separated by a space, got {}",
                       rank, printable(merge, kShown));
    std::string joined(merge.substr(0, space));
    joined += merge.substr(space + 1);
    int32_t left = index.find(merge.substr(0, space));
    int32_t right = index.find(merge.substr(space + 1));
    int32_t result = index.find(joined);
    if (left < 0 || right < 0 || result < 0)
      throw file_error("[tokenizer] merge {}: {} names a token that is not in the vocabulary", rank,
                       printable(merge, kShown));
    auto [entry, fresh] = table.insert(left, right);
    if (!fresh)
      throw file_error("[tokenizer] merge {}: {} appears twice", rank, printable(merge, kShown));
    entry = {static_cast<uint32_t>(rank), result};
  }
  return table;
}

void validate(const TokenizerSpec& spec) {
  TokenIndex index = checked_index(spec);
  checked_merges(spec, index);
}

std::string tokenizer_hash(const TokenizerSpec& spec) {
  files::Hash128 hash;
  auto add = [&](std::string_view text) {
    const uint64_t size = text.size();
    hash.update(std::as_bytes(std::span(&size, 1)));
    hash.update(std::as_bytes(std::span(text)));
  };
  for (const std::string& token : spec.tokens) add(token);
  hash.update(std::as_bytes(std::span(spec.types)));
  for (const int32_t id : {spec.bos, spec.eos, spec.unknown, static_cast<int32_t>(spec.kind),
                           static_cast<int32_t>(spec.pre_tokenizer)})
    hash.update(std::as_bytes(std::span(&id, 1)));
  return hash.hex();
}

}  // namespace ridge::text
