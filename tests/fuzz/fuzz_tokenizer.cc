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

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace {

using namespace ridge::text;  // NOLINT: a program of one file

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  uint8_t byte() {
    if (rest_.empty()) return 0;
    auto value = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }
  std::string bytes(size_t count) {
    std::string out(rest_.substr(0, count));
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Vocabularies with all bytes, chosen by flag bits, so that the fuzzer reaches deep paths without
// luck.
void add_all_bytes(TokenizerSpec& spec) {
  for (int byte = 0; byte < 256; ++byte) {
    bool pieces = spec.kind == TokenizerKind::kSentencePieceBpe;
    constexpr const char* kHex = "0123456789ABCDEF";
    spec.tokens.push_back(pieces ? std::string("<0x") + kHex[byte / 16] + kHex[byte % 16] + ">"
                                 : to_byte_alphabet(std::string(1, static_cast<char>(byte))));
    spec.types.push_back(pieces ? TokenType::kByte : TokenType::kNormal);
    if (pieces) spec.scores.push_back(0);
  }
}

TokenizerSpec read_spec(Reader& in) {
  TokenizerSpec spec;
  uint8_t flags = in.byte();
  spec.kind = flags & 1 ? TokenizerKind::kSentencePieceBpe : TokenizerKind::kByteLevelBpe;
  spec.pre_tokenizer = static_cast<PreTokenizer>((flags >> 1) & 3);
  spec.add_space_prefix = flags & 8;
  spec.whole_piece_first = flags & 16;
  if (flags & 32) add_all_bytes(spec);
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

void expect(bool condition) {
  if (!condition) __builtin_trap();
}

void use(const Tokenizer& tokenizer, std::string_view text) {
  bool exact =
      tokenizer.covers_all_bytes() && (tokenizer.spec().kind == TokenizerKind::kByteLevelBpe ||
                                       text.find("\xE2\x96\x81") == std::string_view::npos);
  for (bool special : {false, true}) {
    std::vector<int32_t> ids = tokenizer.encode(text, {.parse_special = special});
    for (int32_t id : ids) expect(id >= 0 && id < tokenizer.vocab_size());
    std::string back = tokenizer.decode(ids, {.special = true});
    if (exact) expect(back == text);
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
  Reader in(data, size);
  TokenizerSpec spec = read_spec(in);
  try {
    Tokenizer tokenizer(spec);
    use(tokenizer, in.rest());
  } catch (const ridge::Error& error) {
    if (error.code() != ridge::ExitCode::kBadFile) throw;
  }
  return 0;
}
