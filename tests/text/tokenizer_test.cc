// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding against llama.cpp's ids, against plain BPE on small random vocabularies,
// and on malicious text.
#include "text/tokenizer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <set>

#include "text/byte_alphabet.h"
#include "text/symbol_merger.h"
#include "text/text_fixtures.h"

namespace ridge::text {
namespace {

using Ids = std::vector<int32_t>;

const Tokenizer& gpt2() {
  static const Tokenizer tokenizer(gpt2_spec());
  return tokenizer;
}

const nlohmann::json& sentencepiece_data() {
  static const nlohmann::json data = read_json("sentencepiece_llama_cpp.json");
  return data;
}

void expect_ids(const Tokenizer& tokenizer, const nlohmann::json& data, const std::string& name) {
  bool tokenizer_maps_spaces = tokenizer.spec().kind == TokenizerKind::kSentencePieceBpe;
  for (bool special : {false, true}) {
    const nlohmann::json& expected = data[special ? name + "_special" : name];
    for (size_t i = 0; i < data["texts"].size(); ++i) {
      const std::string text = data["texts"][i];
      Ids ids = tokenizer.encode(text, {.parse_special = special});
      EXPECT_EQ(ids, expected[i].get<Ids>()) << name << " " << special << ": " << text;
      // A U+2581 in a text for SentencePiece decodes to a space.
      bool exact = !tokenizer_maps_spaces || text.find("\u2581") == std::string::npos;
      if (exact) {
        EXPECT_EQ(tokenizer.decode(ids, {.special = true}), text);
      }
    }
  }
}

class LlamaCpp : public testing::TestWithParam<std::pair<const char*, PreTokenizer>> {};

TEST_P(LlamaCpp, ByteLevelIdsAgree) {
  auto [name, kind] = GetParam();
  TokenizerSpec spec = gpt2_spec(kind);
  spec.whole_piece_first = kind == PreTokenizer::kLlama3;
  expect_ids(Tokenizer(spec), read_json("byte_level_llama_cpp.json"), name);
}

INSTANTIATE_TEST_SUITE_P(PreTokenizer,
                         LlamaCpp,
                         testing::Values(std::pair{"gpt2", PreTokenizer::kGpt2},
                                         std::pair{"smollm", PreTokenizer::kSmolLm},
                                         std::pair{"llama3", PreTokenizer::kLlama3}),
                         [](const auto& test) { return std::string(test.param.first); });

TEST(Tokenizer, SentencePieceIdsAgreeWithLlamaCpp) {
  for (bool prefix : {false, true})
    expect_ids(Tokenizer(sentencepiece_spec(sentencepiece_data(), prefix)), sentencepiece_data(),
               prefix ? "prefix" : "plain");
}

// Plain BPE: finds the best pair, joins it, and repeats.
template <typename Best>
std::vector<std::string> join_pairs(std::vector<std::string> parts, Best rank) {
  while (true) {
    size_t best = parts.size();
    double best_rank = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i + 1 < parts.size(); ++i) {
      double r = rank(parts[i], parts[i + 1]);
      if (r < best_rank) {
        best_rank = r;
        best = i;
      }
    }
    if (best == parts.size()) return parts;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<int64_t>(best) + 1);
  }
}

std::vector<std::string> letters(const std::string& text) {
  std::vector<std::string> out;
  for (char c : text) out.emplace_back(1, c);
  return out;
}

std::string random_word(std::mt19937& random, size_t size) {
  std::string word;
  while (word.size() < size) word += "abc"[random() % 3];
  return word;
}

TEST(Tokenizer, RandomMergesEqualPlainBpe) {
  std::mt19937 random(3);
  for (int round = 0; round < 60; ++round) {
    TokenizerSpec spec;
    spec.tokens = {"a", "b", "c"};
    std::map<std::pair<std::string, std::string>, int> ranks;
    std::set<std::string> known(spec.tokens.begin(), spec.tokens.end());
    for (int i = 0; i < 25; ++i) {
      std::string left = spec.tokens[random() % spec.tokens.size()];
      std::string right = spec.tokens[random() % spec.tokens.size()];
      if (!ranks.emplace(std::pair{left, right}, 0).second) continue;
      if (known.insert(left + right).second) spec.tokens.push_back(left + right);
      spec.merges.push_back(left + " " + right);
    }
    // Any order, so that a merge may enable one of higher priority.
    std::shuffle(spec.merges.begin(), spec.merges.end(), random);
    for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
      size_t space = spec.merges[rank].find(' ');
      ranks[{spec.merges[rank].substr(0, space), spec.merges[rank].substr(space + 1)}] =
          static_cast<int>(rank);
    }
    Tokenizer tokenizer(spec);
    for (size_t size : {1, 2, 3, 10, 23, 24, 25, 26, 60, 300}) {
      std::string text = random_word(random, size);
      auto expected = join_pairs(letters(text), [&](const std::string& l, const std::string& r) {
        auto found = ranks.find({l, r});
        return found == ranks.end() ? std::numeric_limits<double>::infinity() : found->second;
      });
      std::vector<std::string> got;
      for (int32_t id : tokenizer.encode(text)) got.emplace_back(tokenizer.token_bytes(id));
      ASSERT_EQ(got, expected) << text;
    }
  }
}

TEST(Tokenizer, RandomScoresEqualPlainBpe) {
  std::mt19937 random(4);
  for (int round = 0; round < 60; ++round) {
    TokenizerSpec spec;
    spec.kind = TokenizerKind::kSentencePieceBpe;
    spec.tokens = {"<unk>", "a", "b", "c"};
    spec.types = {TokenType::kUnknown, TokenType::kNormal, TokenType::kNormal, TokenType::kNormal};
    spec.unknown = 0;
    std::map<std::string, float> scores;
    for (int i = 0; i < 30; ++i) scores[random_word(random, 2 + random() % 5)] = 0;
    spec.scores.assign(4, 0.0f);
    for (auto& [token, score] : scores) {
      score = static_cast<float>(random() % 7) - 3.0f;  // many ties, both signs and zero
      spec.tokens.push_back(token);
      spec.types.push_back(TokenType::kNormal);
      spec.scores.push_back(score);
    }
    Tokenizer tokenizer(spec);
    for (size_t size : {1, 2, 5, 24, 25, 80, 300}) {
      std::string text = random_word(random, size);
      auto expected = join_pairs(letters(text), [&](const std::string& l, const std::string& r) {
        auto found = scores.find(l + r);
        return found == scores.end() ? std::numeric_limits<double>::infinity() : -found->second;
      });
      std::vector<std::string> got;
      for (int32_t id : tokenizer.encode(text)) got.emplace_back(tokenizer.token_bytes(id));
      ASSERT_EQ(got, expected) << text;
    }
  }
}

TEST(Tokenizer, DecodeUndoesEncodeForAnyBytes) {
  std::mt19937 random(9);
  Tokenizer plain(sentencepiece_spec(sentencepiece_data(), false));
  Tokenizer prefixed(sentencepiece_spec(sentencepiece_data(), true));
  for (int i = 0; i < 400; ++i) {
    std::string bytes(random() % 300, '\0');
    for (char& c : bytes)
      c = static_cast<char>(i % 2 == 0 ? random() : "a \xF0\xE2\x96 <"[random() % 7]);
    for (const Tokenizer* tokenizer : {&gpt2(), static_cast<const Tokenizer*>(&plain),
                                       static_cast<const Tokenizer*>(&prefixed)}) {
      EXPECT_TRUE(tokenizer->covers_all_bytes());
      ASSERT_EQ(tokenizer->decode(tokenizer->encode(bytes)), bytes);
    }
  }
}

TEST(Tokenizer, BosAndEosStandWhereAsked) {
  Tokenizer tokenizer(sentencepiece_spec(sentencepiece_data(), false));
  Ids ids = tokenizer.encode("ab", {.add_bos = true, .add_eos = true});
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(ids.back(), 2);
  EXPECT_EQ(tokenizer.decode(ids), "ab");
  EXPECT_EQ(tokenizer.decode(ids, {.special = true}), "<s>ab</s>");
  TokenizerSpec without = sentencepiece_spec(sentencepiece_data(), false);
  without.bos = without.eos = kNoToken;
  Tokenizer bare(without);
  EXPECT_NE(error_of([&] { bare.encode("ab", {.add_bos = true}); }, ExitCode::kUsage).find("BOS"),
            std::string::npos);
  EXPECT_NE(error_of([&] { bare.encode("ab", {.add_eos = true}); }, ExitCode::kUsage).find("EOS"),
            std::string::npos);
}

TEST(Tokenizer, LongerSpecialTokensWinThenTheLeftmost) {
  TokenizerSpec spec;
  spec.tokens = {"a", "b", "c", "ab", "abc", "bcab", "cc"};
  spec.types.assign(7, TokenType::kUserDefined);
  for (size_t i = 0; i < 3; ++i) spec.types[i] = TokenType::kNormal;
  Tokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.encode("abcab"), (Ids{0, 5}));  // bcab comes before abc
  EXPECT_EQ(tokenizer.encode("abcabc"), (Ids{0, 5, 2}));
  EXPECT_EQ(tokenizer.encode("abcab."), (Ids{0, 5}));  // "." has no token and is omitted
  EXPECT_EQ(tokenizer.encode("abccc"), (Ids{4, 6}));
  EXPECT_EQ(tokenizer.encode("ccc"), (Ids{6, 2}));
  EXPECT_EQ(tokenizer.encode("abbcab"), (Ids{3, 5}));
}

// llama.cpp would join "<" and "s>" to the control token. Here, text that looks like a control
// token stays text.
TEST(Tokenizer, ControlTokensNeverComeFromMerges) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePieceBpe;
  spec.tokens = {"<unk>", "<s>", "<", "s>", "s", ">", "<s", "[x]", "[x", "]", "[", "x"};
  spec.types.assign(spec.tokens.size(), TokenType::kNormal);
  spec.types[0] = TokenType::kUnknown;
  spec.types[1] = TokenType::kControl;
  spec.scores = {0, 9, 0, 2, 0, 0, 1, 9, 3, 0, 0, 0};
  spec.unknown = 0;
  Tokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.encode("<s>"), (Ids{2, 3}));
  EXPECT_EQ(tokenizer.encode("<s>", {.parse_special = true}), (Ids{1}));
  EXPECT_EQ(tokenizer.encode("[x]"), (Ids{7}));  // a normal token may come from merges
}

TEST(Tokenizer, UnknownCharactersBecomeTheUnknownTokenWithoutBytes) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePieceBpe;
  spec.tokens = {"<unk>", "a"};
  spec.types = {TokenType::kUnknown, TokenType::kNormal};
  spec.scores = {0, 0};
  spec.unknown = 0;
  EXPECT_EQ(Tokenizer(spec).encode("aéa"), (Ids{1, 0, 0, 1}));
}

// Some files write "<0xab>".
TEST(Tokenizer, ByteTokensMayHaveLowerCaseDigits) {
  TokenizerSpec spec;
  spec.kind = TokenizerKind::kSentencePieceBpe;
  for (int byte = 0; byte < 256; ++byte) {
    spec.tokens.push_back(byte % 2 == 0 ? fmt::format("<0x{:02x}>", byte)
                                        : fmt::format("<0x{:02X}>", byte));
    spec.types.push_back(TokenType::kByte);
  }
  spec.tokens.push_back("▁");
  spec.types.push_back(TokenType::kNormal);
  spec.scores.assign(257, 0);
  Tokenizer tokenizer(spec);
  EXPECT_TRUE(tokenizer.covers_all_bytes());
  EXPECT_EQ(tokenizer.encode("\xaa\xab"), (Ids{0xaa, 0xab}));
  // Two spellings of one byte leave another byte without a token.
  spec.tokens[0xaa] = "<0xab>";
  EXPECT_NE(error_of([&] { Tokenizer{spec}; }, ExitCode::kBadFile).find("255 bytes"),
            std::string::npos);
}

TEST(Tokenizer, AMissingByteIsLeftOutAsLlamaCppDoes) {
  TokenizerSpec spec;
  spec.tokens = {"a", "b", "ab"};
  spec.merges = {"a b"};
  Tokenizer tokenizer(spec);
  EXPECT_FALSE(tokenizer.covers_all_bytes());
  EXPECT_EQ(tokenizer.encode("ab?ab"), (Ids{2, 2}));
  // An omitted character still separates its neighbors.
  EXPECT_EQ(tokenizer.encode("a?b"), (Ids{0, 1}));
}

TEST(Tokenizer, IdsOutOfRangeAreRefused) {
  for (int32_t id : {-1, 50257, std::numeric_limits<int32_t>::max()}) {
    EXPECT_NE(error_of([&] { gpt2().decode(Ids{id}); }, ExitCode::kUsage), "");
    EXPECT_NE(error_of([&] { gpt2().token_bytes(id); }, ExitCode::kUsage), "");
  }
}

TEST(Tokenizer, SafeCutsChangeNoIds) {
  Tokenizer plain(sentencepiece_spec(sentencepiece_data(), false));
  Tokenizer prefixed(sentencepiece_spec(sentencepiece_data(), true));
  std::mt19937 random(21);
  for (const Tokenizer* tokenizer :
       {&gpt2(), static_cast<const Tokenizer*>(&plain), static_cast<const Tokenizer*>(&prefixed)}) {
    int cuts = 0;
    for (int i = 0; i < 300; ++i) {
      std::string text = random_text(random, 80) + "a b" + random_text(random, 20);
      Ids whole = tokenizer->encode(text, {.parse_special = true});
      size_t cut = tokenizer->safe_cut(text, random() % text.size());
      if (cut == text.size()) continue;
      ++cuts;
      Ids halves = tokenizer->encode(text.substr(0, cut), {.parse_special = true});
      Ids right =
          tokenizer->encode(text.substr(cut), {.parse_special = true, .continuation = true});
      halves.insert(halves.end(), right.begin(), right.end());
      ASSERT_EQ(halves, whole) << text << " cut at " << cut;
    }
    EXPECT_GT(cuts, 100);
  }
}

// No time is measured: at two megabytes, quadratic work would take almost an hour and hit ctest's
// time limit.
TEST(Tokenizer, HostileTextIsEncodedAndComesBack) {
  Tokenizer sentencepiece(sentencepiece_spec(sentencepiece_data(), true));
  std::mt19937 random(1);
  std::string noise(size_t{1} << 20, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  for (const Tokenizer* tokenizer : {&gpt2(), static_cast<const Tokenizer*>(&sentencepiece)}) {
    for (const std::string& unit :
         {std::string("a"), std::string(" "), std::string("\n"), std::string("🙂"),
          std::string("'"), std::string("<"), std::string("<s"), std::string("\xF0"),
          std::string("\n a"), noise}) {
      std::string text = repeated(unit, size_t{2} << 20);
      EXPECT_TRUE(tokenizer->decode(tokenizer->encode(text, {.parse_special = true}),
                                    {.special = true}) == text)
          << unit.substr(0, 4);
    }
  }
}

// The cost of merging is its number of look-ups: at most three per symbol, for any merges in any
// order.
TEST(SymbolMerger, LooksUpAtMostThreePairsASymbol) {
  for (uint32_t n : {100u, 10000u, 200000u}) {
    for (int kind = 0; kind < 4; ++kind) {
      std::mt19937 random(7);
      SymbolMerger merger;
      for (uint32_t i = 0; i < n; ++i)
        merger.symbols().push_back(
            {kind == 0 ? 0 : static_cast<int32_t>(kind == 1 ? i % 2 : random() % 3), i, 1});
      int64_t lookups = 0;
      merger.run([&](const Symbol& left, const Symbol& right) -> Merge {
        ++lookups;
        // All pairs join: equal lengths first, from the left end, or in random order.
        uint32_t priority = kind < 2    ? left.size + right.size
                            : kind == 2 ? left.begin
                                        : left.begin * 2654435761u;
        return {priority, (left.id + right.id) % 3};
      });
      EXPECT_LE(lookups, int64_t{3} * n) << n << " symbols of kind " << kind;
    }
  }
}

TEST(ByteAlphabet, IsGpt2s) {
  EXPECT_EQ(to_byte_alphabet(" a\n\xFF"), "ĠaĊÿ");
  EXPECT_EQ(from_byte_alphabet("ĠaĊÿ"), " a\n\xFF");
  EXPECT_EQ(from_byte_alphabet("日"), std::nullopt);
  EXPECT_EQ(from_byte_alphabet(" "), std::nullopt);
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  EXPECT_EQ(from_byte_alphabet(to_byte_alphabet(all)), all);
}

}  // namespace
}  // namespace ridge::text
