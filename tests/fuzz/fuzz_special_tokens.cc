// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: the bytes are special tokens and a text. The vocabulary has no merges, so a
// naive search for the longest special token and one id per byte between them give the exact ids.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/byte_reader.h"
#include "fuzz/refusal.h"
#include "fuzz/whole_vocabulary.h"
#include "text/tokenizer.h"

namespace {

using namespace ridge::text;  // NOLINT: a program of one file
using ridge::fuzz::add_all_bytes;
using ridge::fuzz::allow_refusal;
using ridge::fuzz::ByteReader;
using ridge::fuzz::expect;

constexpr size_t kLongestText = 512;  // the naive search is cubic
constexpr int32_t kBytes = 256;       // ids of bytes come first, then the space mark
constexpr int32_t kSpace = kBytes;
constexpr int32_t kFirstSpecial = kBytes + 1;

TokenizerSpec read_spec(ByteReader& in) {
  TokenizerSpec spec;
  const uint8_t flags = in.byte();
  spec.kind = flags & 1 ? TokenizerKind::kSentencePieceBpe : TokenizerKind::kByteLevelBpe;
  spec.add_space_prefix = flags & 2;
  add_all_bytes(spec);
  auto add = [&](std::string token, TokenType type) {
    spec.tokens.push_back(std::move(token));
    spec.types.push_back(type);
    if (spec.kind == TokenizerKind::kSentencePieceBpe) spec.scores.push_back(0);
  };
  add("\xE2\x96\x81", TokenType::kNormal);
  for (int count = in.byte() % 32; count > 0; --count) {
    const uint8_t head = in.byte();
    const size_t size = head & 0x1F;
    // Runs and tokens that continue an earlier one, so that many overlap.
    std::string token = head & 0x20 ? std::string(size, 'a') : in.bytes(size);
    if (head & 0x40) token = spec.tokens.back() + token;
    // SentencePiece joins the pieces of a user-defined token that is written with a mark.
    const bool joins = !spec.scores.empty() && token.find(spec.tokens[kSpace]) != token.npos;
    add(token, head & 0x80 && !joins ? TokenType::kUserDefined : TokenType::kControl);
  }
  return spec;
}

// By their definition, encoding and decoding must give what this does.
class Naive {
 public:
  Naive(const TokenizerSpec& spec, bool parse_special)
      : spec_(spec),
        pieces_(spec.kind == TokenizerKind::kSentencePieceBpe),
        prefix_(pieces_ && spec.add_space_prefix) {
    for (size_t id = kFirstSpecial; id < spec.tokens.size(); ++id)
      if (!spec.tokens[id].empty() && (parse_special || spec.types[id] == TokenType::kUserDefined))
        searched_.push_back(static_cast<int32_t>(id));
  }

  std::vector<int32_t> encode(std::string_view text) {
    ids_.clear();
    space_before_ = prefix_;
    segment(text);
    return ids_;
  }

 private:
  struct Match {
    size_t begin = 0;
    int32_t id = kNoToken;
  };
  std::string_view token(int32_t id) const { return spec_.tokens[static_cast<size_t>(id)]; }

  // The longest token anywhere in the text; of equally long ones the leftmost.
  std::optional<Match> longest(std::string_view text) const {
    std::optional<Match> best;
    for (int32_t id : searched_) {
      const size_t begin = text.find(token(id));
      if (begin == std::string_view::npos) continue;
      const size_t size = token(id).size(), best_size = best ? token(best->id).size() : 0;
      if (size > best_size || (size == best_size && begin < best->begin)) best = Match{begin, id};
    }
    return best;
  }

  void segment(std::string_view text) {
    const std::optional<Match> match = longest(text);
    if (!match) return plain(text);
    segment(text.substr(0, match->begin));
    ids_.push_back(match->id);
    space_before_ = prefix_;
    segment(text.substr(match->begin + token(match->id).size()));
  }

  void plain(std::string_view text) {
    if (text.empty()) return;
    if (space_before_) ids_.push_back(kSpace);
    space_before_ = false;
    for (size_t at = 0; at < text.size();) {
      const bool mark = pieces_ && text.substr(at).starts_with(token(kSpace));
      const bool space = mark || (pieces_ && text[at] == ' ');
      ids_.push_back(space ? kSpace : static_cast<int32_t>(static_cast<uint8_t>(text[at])));
      at += mark ? token(kSpace).size() : 1;
    }
  }

  const TokenizerSpec& spec_;
  bool pieces_, prefix_;
  std::vector<int32_t> searched_;
  std::vector<int32_t> ids_;
  bool space_before_ = false;
};

// The text that the ids stand for. SentencePiece has a space for each mark outside special tokens.
std::string restored(const TokenizerSpec& spec,
                     const std::vector<int32_t>& ids,
                     bool with_control) {
  const bool pieces = spec.kind == TokenizerKind::kSentencePieceBpe;
  std::string text;
  bool drop_space = pieces && spec.add_space_prefix;
  for (int32_t id : ids) {
    const std::string& token = spec.tokens[static_cast<size_t>(id)];
    const bool special = id >= kFirstSpecial;
    if (special && (with_control || spec.types[static_cast<size_t>(id)] == TokenType::kUserDefined))
      text += token;
    else if (id < kBytes)
      text += static_cast<char>(id);
    else if (id == kSpace && !drop_space)
      text += pieces ? " " : token;
    drop_space = special && pieces && spec.add_space_prefix;
  }
  return text;
}

void use(const TokenizerSpec& spec, std::string_view text) {
  const Tokenizer tokenizer(spec);
  for (bool special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer.encode(text, {.parse_special = special});
    expect(ids == Naive(spec, special).encode(text));
    for (bool with_control : {false, true})
      expect(tokenizer.decode(ids, {.special = with_control}) == restored(spec, ids, with_control));
    const bool has_marks = text.find("\xE2\x96\x81") != std::string_view::npos;
    if (spec.kind == TokenizerKind::kByteLevelBpe || !has_marks)
      expect(tokenizer.decode(ids, {.special = true}) == text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteReader in(data, size);
  const TokenizerSpec spec = read_spec(in);
  allow_refusal([&] { use(spec, in.rest().substr(0, kLongestText)); });
  return 0;
}
