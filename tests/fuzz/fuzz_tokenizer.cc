// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: the bytes are a tokenizer specification and a text for it. A specification is
// either refused as a bad file, or it works for any text: ids in range, valid UTF-8 from the
// stream, and the original text from decoding if the vocabulary covers it.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/byte_reader.h"
#include "fuzz/refusal.h"
#include "fuzz/whole_vocabulary.h"
#include "text/nfc.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace ridge::text;  // NOLINT: a program of one file
using ridge::fuzz::add_all_bytes;
using ridge::fuzz::allow_refusal;
using ridge::fuzz::ByteReader;
using ridge::fuzz::expect;

TokenizerSpec read_spec(ByteReader& in) {
  TokenizerSpec spec;
  uint8_t flags = in.byte();
  spec.kind = flags & 1 ? TokenizerKind::kSentencePieceBpe : TokenizerKind::kByteLevelBpe;
  spec.pre_tokenizer = static_cast<PreTokenizer>((flags >> 1) & 3);
  spec.add_space_prefix = flags & 8;
  spec.whole_piece_first = flags & 16;
  if (flags & 32) add_all_bytes(spec);
  if (flags & 128) {
    spec.pre_tokenizer = PreTokenizer::kQwen2;
    spec.nfc = true;
  }
  for (int n = in.byte() % 64; n > 0; --n) {
    uint8_t head = in.byte();
    spec.tokens.push_back(in.bytes(head & 15));
    spec.types.push_back(static_cast<TokenType>(head >> 5));
    float score = static_cast<float>(static_cast<int8_t>(in.byte()));
    if (score == 127.0f) std::memcpy(&score, in.bytes(4).append(4, '\0').data(), 4);
    if (spec.kind == TokenizerKind::kSentencePieceBpe) spec.scores.push_back(score);
  }
  for (int n = in.byte() % 64; n > 0; --n) {
    uint8_t left = in.byte();
    uint8_t right = in.byte();
    if (left == 255 || spec.tokens.empty()) {
      spec.merges.push_back(in.bytes(right % 16));
      continue;
    }
    spec.merges.push_back(spec.tokens[left % spec.tokens.size()] + " " +
                          spec.tokens[right % spec.tokens.size()]);
    if (flags & 64) {  // make the result a token
      std::string joined = spec.merges.back();
      joined.erase(joined.find(' '), 1);
      spec.tokens.push_back(joined);
      spec.types.push_back(TokenType::kNormal);
      if (spec.kind == TokenizerKind::kSentencePieceBpe) spec.scores.push_back(-1);
    }
  }
  spec.unknown = static_cast<int8_t>(in.byte());
  spec.bos = static_cast<int8_t>(in.byte());
  return spec;
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  bool exact =
      tokenizer.covers_all_bytes() && (tokenizer.spec().kind == TokenizerKind::kByteLevelBpe ||
                                       text.find("\xE2\x96\x81") == std::string_view::npos);
  std::string expected(text);
  if (tokenizer.spec().nfc) expected = to_nfc(text).value_or(expected);
  for (bool special : {false, true}) {
    std::vector<int32_t> ids = tokenizer.encode(text, {.parse_special = special});
    for (int32_t id : ids) expect(id >= 0 && id < tokenizer.vocab_size());
    std::string back = tokenizer.decode(ids, {.special = true});
    if (exact) expect(back == expected);
    StreamDecoder stream(tokenizer);
    for (int32_t id : ids) expect(is_valid_utf8(stream.push(id)));
    stream.finish();
    size_t cut = tokenizer.safe_cut(text, text.size() / 3);
    std::vector<int32_t> halves = tokenizer.encode(text.substr(0, cut), {.parse_special = special});
    std::vector<int32_t> right =
        tokenizer.encode(text.substr(cut), {.parse_special = special, .continuation = cut > 0});
    halves.insert(halves.end(), right.begin(), right.end());
    expect(halves == ids);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteReader in(data, size);
  TokenizerSpec spec = read_spec(in);
  allow_refusal([&] { use(Tokenizer(spec), in.rest()); });
  return 0;
}
