// SPDX-License-Identifier: Apache-2.0
// BPE training against a published result and against a plain implementation.
#include "text/bpe_trainer.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <map>

#include "text/text_fixtures.h"
#include "text/tokenizer.h"

namespace ridge::text {
namespace {

TokenizerSpec train(std::string_view text,
                    int32_t vocab_size,
                    std::vector<std::string> special = {}) {
  BpeTrainer trainer({.vocab_size = vocab_size, .special_tokens = std::move(special)});
  trainer.add_text(text);
  return trainer.train();
}

TEST(BpeTrainer, GivesThePublishedMergesAndVocabulary) {
  TokenizerSpec spec = train(read_data("corpus.en"), 500, {"<|endoftext|>"});
  std::string merges;
  for (const std::string& merge : spec.merges) merges += merge + "\n";
  EXPECT_EQ(spec.merges.size(), 243u);
  EXPECT_EQ(merges, read_data("train-bpe-reference-merges.txt"));
  const nlohmann::json vocabulary = read_json("train-bpe-reference-vocab.json");
  ASSERT_EQ(spec.tokens.size(), vocabulary.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id)
    EXPECT_EQ(vocabulary.value(spec.tokens[id], -1), static_cast<int>(id)) << spec.tokens[id];
  EXPECT_EQ(spec.types[0], TokenType::kControl);
  EXPECT_EQ(error_of([&] { validate(spec); }), "");
}

// Counts all pairs again for each merge, on strings.
std::vector<std::string> plain_merges(std::string_view text, size_t wanted) {
  std::map<std::vector<std::string>, int64_t> words;
  for (size_t at = 0; at < text.size();) {
    size_t end = piece_end(PreTokenizer::kGpt2, text, at);
    std::vector<std::string> word;
    for (char c : text.substr(at, end - at)) word.emplace_back(1, c);
    ++words[word];
    at = end;
  }
  std::vector<std::string> merges;
  while (merges.size() < wanted) {
    std::map<std::pair<std::string, std::string>, int64_t> counts;
    for (const auto& [word, count] : words)
      for (size_t i = 0; i + 1 < word.size(); ++i) counts[{word[i], word[i + 1]}] += count;
    if (counts.empty()) break;
    auto best = counts.begin();
    for (auto it = counts.begin(); it != counts.end(); ++it)
      if (it->second >= best->second)
        best = it;  // ascending keys, so the last of equal pairs is the greatest
    auto [left, right] = best->first;
    merges.push_back(left + " " + right);
    std::map<std::vector<std::string>, int64_t> joined;
    for (const auto& [word, count] : words) {
      std::vector<std::string> out;
      for (size_t i = 0; i < word.size(); ++i) {
        bool here = i + 1 < word.size() && word[i] == left && word[i + 1] == right;
        out.push_back(here ? left + right : word[i]);
        i += here;
      }
      joined[out] += count;
    }
    words = std::move(joined);
  }
  return merges;
}

TEST(BpeTrainer, EqualsPlainTraining) {
  std::mt19937 random(2);
  for (int round = 0; round < 40; ++round) {
    // Words of a few printable letters, with overlapping pairs ("aaa") and many ties.
    std::string text;
    for (int w = 0; w < 40; ++w) {
      for (size_t i = 1 + random() % 9; i > 0; --i) text += "aab"[random() % 3];
      text += w % 7 == 0 ? "." : "-";
    }
    // A merge whose bytes are already a token adds no token, so compare with the same number of
    // merges.
    TokenizerSpec spec = train(text, 256 + 12);
    std::vector<std::string> expected = plain_merges(text, spec.merges.size());
    ASSERT_EQ(spec.merges, expected) << text;
  }
}

// The counts that a lecture prints: 5 low, 2 lower, 3 widest and 6 newest.
TEST(BpeTrainer, TellsTheCountsOfPairsAfterEachMerge) {
  std::vector<std::map<std::string, int64_t>> counts;
  std::vector<std::string> next;
  BpeTrainerOptions options{.vocab_size = 258};
  options.pairs = [&](const std::vector<PairCount>& pairs, int64_t all) {
    EXPECT_EQ(all, std::ssize(pairs));
    next.push_back(pairs.front().left + pairs.front().right);
    for (counts.emplace_back(); const PairCount& each : pairs)
      counts.back()[each.left + each.right] = each.count;
  };
  BpeTrainer trainer(options);
  for (const auto& [word, count] :
       {std::pair{"low", 5}, {"lower", 2}, {"widest", 3}, {"newest", 6}})
    for (int i = 0; i < count; ++i) trainer.add_text(word);
  const TokenizerSpec spec = trainer.train();
  ASSERT_EQ(counts.size(), 3u);
  const std::map<std::string, int64_t> first = {{"lo", 7}, {"ow", 7}, {"we", 8}, {"er", 2},
                                                {"wi", 3}, {"id", 3}, {"de", 3}, {"es", 9},
                                                {"st", 9}, {"ne", 6}, {"ew", 6}};
  EXPECT_EQ(counts[0], first);
  EXPECT_EQ(counts[1].at("est"), 9);
  EXPECT_FALSE(counts[1].contains("es"));
  EXPECT_EQ(next, (std::vector<std::string>{"st", "est", "ow"}));
  EXPECT_EQ(spec.merges, (std::vector<std::string>{"s t", "e st"}));
}

TEST(BpeTrainer, TellsTheMostFrequentPairsOfMany) {
  BpeTrainerOptions options{.vocab_size = 257};
  std::vector<std::string> told;
  options.pairs = [&](const std::vector<PairCount>& pairs, int64_t all) {
    told.push_back(std::to_string(all));
    for (const PairCount& each : pairs) told.back() += " " + each.left + each.right;
  };
  BpeTrainer trainer(options);
  // The pair of a letter with itself as often as its place says; of as many, the larger is first.
  for (char c = 'a'; c <= 'z'; ++c)
    for (int i = 0; i < (c == 'y' ? 26 : c - 'a' + 1); ++i) trainer.add_text(std::string(2, c));
  trainer.train();
  EXPECT_EQ(told, (std::vector<std::string>{"26 zz yy xx ww vv uu tt ss rr qq pp oo",
                                            "25 yy xx ww vv uu tt ss rr qq pp oo nn"}));
}

TEST(BpeTrainer, AMergeThatMakesAKnownTokenAddsNone) {
  // "aaaa" and "aaa" lead to the merge a a, then to both aa a and a aa in some order.
  std::string text = repeated("aaaaa-aaaaaaa.", 400);
  TokenizerSpec spec = train(text, 256 + 40);
  EXPECT_EQ(error_of([&] { validate(spec); }), "");
  Tokenizer tokenizer(spec);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
}

TEST(BpeTrainer, NoMergeReachesOverASpecialTokenNorBecomesOne) {
  std::string text = repeated("ab<|x|>", 900);
  TokenizerSpec spec = train(text, 300, {"<|x|>"});
  for (const std::string& merge : spec.merges) EXPECT_EQ(merge, "a b");
  // Without the special token, "ab" would grow into "abab". Merges never form the text of a special
  // token.
  TokenizerSpec banned = train(repeated("abab", 40), 300, {"abab"});
  EXPECT_EQ(error_of([&] { validate(banned); }), "");
  for (const std::string& merge : banned.merges) EXPECT_NE(merge, "ab ab");
}

TEST(BpeTrainer, TheSameForAnyNumberOfThreads) {
  std::string text = read_data("corpus.en");
  int before = omp_get_max_threads();
  omp_set_num_threads(1);
  TokenizerSpec one = train(text, 1200);
  omp_set_num_threads(4);
  TokenizerSpec four = train(text, 1200);
  omp_set_num_threads(before);
  EXPECT_EQ(one.merges, four.merges);
  EXPECT_EQ(one.tokens, four.tokens);
}

TEST(BpeTrainer, StopsWhereNoPairIsLeft) {
  EXPECT_EQ(train("", 300).merges.size(), 0u);
  EXPECT_EQ(train("a b c", 300).merges.size(), 2u);  // " b", " c"
}

TEST(BpeTrainer, ProgressReachesTheEnd) {
  int64_t last = 0;
  BpeTrainer trainer({.vocab_size = 400, .progress = [&](int64_t done, int64_t wanted) {
                        EXPECT_GT(done, last);
                        EXPECT_EQ(wanted, 144);
                        last = done;
                      }});
  trainer.add_text(read_data("corpus.en"));
  trainer.train();
  EXPECT_EQ(last, 144);
}

TEST(BpeTrainer, ImpossibleOptionsAreRefused) {
  auto refused = [](int32_t size, std::vector<std::string> special) {
    return error_of([&] { BpeTrainer({.vocab_size = size, .special_tokens = special}); },
                    ExitCode::kUsage);
  };
  EXPECT_NE(refused(255, {}).find("vocabulary size"), std::string::npos);
  EXPECT_NE(refused(256, {"<x>"}).find("vocabulary size"), std::string::npos);
  EXPECT_NE(refused(-1, {}).find("vocabulary size"), std::string::npos);
  EXPECT_NE(refused(300, {""}).find("special token"), std::string::npos);
  EXPECT_NE(refused(300, {"x", "x"}).find("special token"), std::string::npos);
  EXPECT_NE(refused(300, {"<x>", "<x>"}).find("special token"), std::string::npos);
}

// Merging works on distinct pieces, so a text repeated four times has the same merges from the same
// pieces. `ridge tokenizer train --json` measures the time per megabyte.
TEST(BpeTrainer, CountsOfPiecesScaleAndNothingElse) {
  std::string corpus = read_data("corpus.en"), text;
  for (int i = 0; i < 4; ++i) text += corpus + "<x>";
  BpeTrainer once({.vocab_size = 1000, .special_tokens = {"<x>"}}),
      often({.vocab_size = 1000, .special_tokens = {"<x>"}});
  once.add_text(corpus);
  often.add_text(text);
  EXPECT_EQ(often.train().merges, once.train().merges);
}

}  // namespace
}  // namespace ridge::text
