// SPDX-License-Identifier: Apache-2.0
// Encodes text: special tokens are cut out first, and the text between them goes through BPE piece
// by piece. Pieces repeat, so the ids of a short piece are copied from an earlier occurrence in the
// output.
#include <algorithm>
#include <bit>
#include <deque>
#include <optional>

#include "base/error.h"
#include "text/nfc.h"
#include "text/symbol_merger.h"
#include "text/tokenizer.h"

namespace ridge::text {
namespace {

// Remembers where in the output the ids of a piece already are. Pieces must outlive it.
class PieceMemory {
 public:
  // The number of slots is proportional to the text, so that a short prompt has no cost.
  explicit PieceMemory(size_t text_bytes)
      : slots_(text_bytes < kWorthwhileBytes
                   ? 0
                   : std::min(kMostSlots, std::bit_ceil(text_bytes / kBytesPerSlot))) {}

  // If the piece is known, appends its ids and returns true.
  bool recall(std::string_view piece, std::vector<int32_t>& ids) {
    if (slots_.empty() || piece.size() > kLongestPiece) return false;
    slot_ = &slots_[hash_bytes(piece) & (slots_.size() - 1)];
    if (slot_->piece != piece) return false;
    size_t end = slot_->first + slot_->count;
    for (size_t i = slot_->first; i < end; ++i) ids.push_back(int32_t{ids[i]});
    return true;
  }

  // Must follow a failed `recall` of the same piece, whose ids are the `count` ids from `first`.
  void remember(std::string_view piece, size_t first, size_t count) {
    if (!slots_.empty() && piece.size() <= kLongestPiece) *slot_ = {piece, first, count};
  }

 private:
  static constexpr size_t kWorthwhileBytes = 512;
  static constexpr size_t kBytesPerSlot = 16;
  static constexpr size_t kMostSlots = size_t{1} << 15;  // 1 MiB of slots: an L2 cache
  static constexpr size_t kLongestPiece = 64;
  struct KnownPiece {
    std::string_view piece;
    size_t first = 0;
    size_t count = 0;
  };

  std::vector<KnownPiece> slots_;
  KnownPiece* slot_ = nullptr;
};

// The working memory of one call of `encode`.
class Encoder {
 public:
  Encoder(const TokenizerTables& tables, size_t text_bytes, std::vector<int32_t>& ids)
      : t_(tables), memory_(text_bytes), ids_(ids) {}

  void byte_level(std::string_view text) {
    if (t_.spec.nfc)
      if (std::optional<std::string> changed = to_nfc(text))
        text = changed_.emplace_back(std::move(*changed));
    for (size_t at = 0; at < text.size();) {
      size_t end = piece_end(t_.spec.pre_tokenizer, text, at);
      std::string_view piece = text.substr(at, end - at);
      remembered(piece, [&] { encode_bytes(piece); });
      at = end;
    }
  }

  void sentencepiece(std::string_view text, bool space_before) {
    std::string& escaped = changed_.emplace_back();
    escaped.reserve(text.size() + text.size() / 2 + kSpaceMark.size());
    if (space_before) escaped += kSpaceMark;
    for (char c : text) {
      if (c == ' ')
        escaped += kSpaceMark;
      else
        escaped.push_back(c);
    }
    words(escaped);
  }

 private:
  // Cuts before each U+2581, unless a token contains the character before it followed by U+2581. No
  // merge can cross such a cut.
  void words(std::string_view text) {
    uint32_t previous = 0;
    size_t begin = 0;
    for (size_t at = 0; at < text.size();) {
      std::string_view character = first_character(text.substr(at));
      if (at > begin && character == kSpaceMark &&
          !std::binary_search(t_.before_space.begin(), t_.before_space.end(), previous)) {
        word(text.substr(begin, at - begin));
        begin = at;
      }
      previous = packed(character);
      at += character.size();
    }
    if (begin < text.size()) word(text.substr(begin));
  }

  void word(std::string_view piece) {
    remembered(piece, [&] { encode_characters(piece); });
  }

  template <typename F>
  void remembered(std::string_view piece, F encode_piece) {
    if (memory_.recall(piece, ids_)) return;
    size_t first = ids_.size();
    encode_piece();
    memory_.remember(piece, first, ids_.size() - first);
  }

  void encode_bytes(std::string_view piece) {
    if (t_.spec.whole_piece_first) {
      int32_t whole = t_.whole_pieces.find(piece);
      if (whole >= 0) return ids_.push_back(whole);
    }
    std::vector<Symbol>& symbols = merger_.symbols();
    symbols.clear();
    for (size_t i = 0; i < piece.size(); ++i) {
      int32_t id = t_.byte_tokens[static_cast<uint8_t>(piece[i])];
      symbols.push_back({id, static_cast<uint32_t>(i), 1});
    }
    merger_.run([this](const Symbol& left, const Symbol& right) {
      if (left.id < 0 || right.id < 0) return Merge{};
      const Merge* merge = t_.merges.find(left.id, right.id);
      return merge == nullptr ? Merge{} : *merge;
    });
    for (const Symbol& symbol : symbols)
      if (symbol.size > 0 && symbol.id >= 0) ids_.push_back(symbol.id);
  }

  void encode_characters(std::string_view piece) {
    std::vector<Symbol>& symbols = merger_.symbols();
    symbols.clear();
    for (size_t at = 0; at < piece.size();) {
      std::string_view character = first_character(piece.substr(at));
      auto size = static_cast<uint32_t>(character.size());
      symbols.push_back({joined(character).result, static_cast<uint32_t>(at), size});
      at += size;
    }
    merger_.run([this, piece](const Symbol& left, const Symbol& right) {
      return joined(piece.substr(left.begin, left.size + right.size));
    });
    for (const Symbol& symbol : symbols) {
      if (symbol.size == 0) continue;
      if (symbol.id >= 0)
        ids_.push_back(symbol.id);
      else
        for (char c : piece.substr(symbol.begin, symbol.size))
          ids_.push_back(t_.byte_tokens[static_cast<uint8_t>(c)]);
    }
  }

  Merge joined(std::string_view text) const {
    int32_t id = t_.index.find(text);
    if (id < 0 || !t_.joins[static_cast<size_t>(id)]) return {};
    return {t_.priorities[static_cast<size_t>(id)], id};
  }

  const TokenizerTables& t_;
  PieceMemory memory_;
  SymbolMerger merger_;
  std::deque<std::string> changed_;  // pieces point into them
  std::vector<int32_t>& ids_;
};

}  // namespace

std::vector<SpecialMatch> Tokenizer::specials(std::string_view text,
                                              const EncodeOptions& options) const {
  std::vector<SpecialMatch> found;
  auto find = [&](const SpecialFinder& finder, size_t begin, size_t end) {
    for (SpecialMatch match : finder.find(text.substr(begin, end - begin))) {
      match.begin += begin;
      found.push_back(match);
    }
  };
  size_t at = 0;
  if (options.parse_special)
    for (const TextRange& plain : options.plain) {
      find(all_special_, at, plain.begin);
      find(user_defined_, plain.begin, plain.end);
      at = plain.end;
    }
  find(options.parse_special ? all_special_ : user_defined_, at, text.size());
  return found;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes)
    throw usage_error("[tokenizer] expected at most {} bytes of text at once, got {}",
                      kMaxTextBytes, text.size());
  if (options.add_bos && t_.spec.bos == kNoToken)
    throw usage_error("[tokenizer] cannot add BOS: the model has no such token");
  if (options.add_eos && t_.spec.eos == kNoToken)
    throw usage_error("[tokenizer] cannot add EOS: the model has no such token");

  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3 + 2);
  if (options.add_bos) ids.push_back(t_.spec.bos);
  Encoder encoder(t_, text.size(), ids);
  bool space_before = t_.spec.add_space_prefix && !options.continuation;
  auto raw = [&](size_t begin, size_t end) {
    if (begin == end) return;
    if (t_.spec.kind == TokenizerKind::kByteLevelBpe)
      encoder.byte_level(text.substr(begin, end - begin));
    else
      encoder.sentencepiece(text.substr(begin, end - begin), space_before);
    space_before = false;
  };
  size_t at = 0;
  for (const SpecialMatch& special : specials(text, options)) {
    raw(at, special.begin);
    ids.push_back(special.id);
    at = special.begin + special.size;
    space_before = t_.spec.add_space_prefix;
  }
  raw(at, text.size());
  if (options.add_eos) ids.push_back(t_.spec.eos);
  return ids;
}

}  // namespace ridge::text
