// SPDX-License-Identifier: Apache-2.0
// Special tokens in text against their definition, and on texts that could make a scan slow.
#include "text/special_finder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

namespace ridge::text {
namespace {

using Tokens = std::vector<std::pair<std::string_view, int32_t>>;

// Token by token, the longest first: every occurrence from the left that does not overlap an
// earlier match.
std::vector<SpecialMatch> expected(Tokens tokens, std::string_view text) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](auto& a, auto& b) { return a.first.size() > b.first.size(); });
  std::vector<bool> taken(text.size());
  std::vector<SpecialMatch> matches;
  for (size_t i = 0; i < tokens.size();) {
    const size_t size = tokens[i].first.size();
    size_t end = i;
    while (end < tokens.size() && tokens[end].first.size() == size) ++end;
    for (size_t at = 0; at + size <= text.size(); ++at)
      for (size_t token = i; token < end; ++token) {
        if (text.substr(at, size) != tokens[token].first) continue;
        if (std::find(taken.begin() + static_cast<int64_t>(at),
                      taken.begin() + static_cast<int64_t>(at + size),
                      true) != taken.begin() + static_cast<int64_t>(at + size))
          continue;
        std::fill_n(taken.begin() + static_cast<int64_t>(at), size, true);
        matches.push_back({at, size, tokens[token].second});
      }
    i = end;
  }
  std::sort(matches.begin(), matches.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  return matches;
}

std::string str(const std::vector<SpecialMatch>& matches) {
  std::string text;
  for (const SpecialMatch& each : matches)
    text += std::to_string(each.begin) + "+" + std::to_string(each.size) + "=" +
            std::to_string(each.id) + " ";
  return text;
}

TEST(SpecialFinder, FindsWhatTheDefinitionSays) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const int letters = 1 + static_cast<int>(random() % 3);
    auto word = [&](size_t size) {
      std::string text;
      for (size_t i = 0; i < size; ++i)
        text += static_cast<char>('a' + random() % static_cast<unsigned>(letters));
      return text;
    };
    std::vector<std::string> words;
    for (size_t i = 0, count = 1 + random() % 6; i < count; ++i)
      words.push_back(word(1 + random() % 5));
    std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    Tokens tokens;
    for (size_t i = 0; i < words.size(); ++i)
      tokens.emplace_back(words[i], static_cast<int32_t>(i));
    const std::string text = word(random() % 40);
    ASSERT_EQ(str(SpecialFinder(tokens).find(text)), str(expected(tokens, text)))
        << "round " << round << ", text " << text;
  }
}

TEST(SpecialFinder, TakesTextsThatAlmostMatchEverywhere) {
  const std::string run(511, 'a'), token = run + "b", other = "b" + run, text(10'000'000, 'a');
  EXPECT_TRUE(SpecialFinder(Tokens{{token, 0}, {other, 1}}).find(text).empty());
  const std::vector<SpecialMatch> matches = SpecialFinder(Tokens{{token, 0}}).find(text + "b");
  ASSERT_EQ(matches.size(), 1u);
  EXPECT_EQ(matches[0].begin, text.size() - 511);
}

TEST(SpecialFinder, TakesTokensThatAreAllPrefixesOfOneAnother) {
  std::vector<std::string> runs;
  for (size_t size = 1; size <= 512; ++size) runs.emplace_back(size, 'a');
  Tokens tokens;
  for (const std::string& each : runs) tokens.emplace_back(each, static_cast<int32_t>(each.size()));
  const std::string text(1'000'003, 'a');
  const std::vector<SpecialMatch> matches = SpecialFinder(tokens).find(text);
  ASSERT_EQ(matches.size(), 1'000'003u / 512 + 1);
  for (const SpecialMatch& each : matches)
    EXPECT_EQ(static_cast<size_t>(each.id), &each == &matches.back() ? 1'000'003u % 512 : 512u);
}

}  // namespace
}  // namespace ridge::text
