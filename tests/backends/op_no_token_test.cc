// SPDX-License-Identifier: Apache-2.0
// Sampling from logits that are not finite, which has one rule on all backends: a row with NaN or
// +infinity, or without a finite logit, has no token; among finite logits, -infinity is never
// chosen.
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "backends/op_check.h"
#include "backends/op_samples.h"

namespace ridge::backends {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kRecent = 3;

// Temperature, top-k, top-p, min-p, penalty, biases (of token 0, by 0).
std::vector<std::vector<double>> all_settings() {
  std::vector<std::vector<double>> all;
  for (double temperature : {0.0, 0.8})
    for (double top_k : {0.0, 3.0})
      for (double top_p : {0.0, 0.5})
        for (double min_p : {0.0, 0.2, 2.0})
          for (double penalty : {0.0, 1.3})
            for (double biases : {0.0, 1.0})
              all.push_back({temperature, top_k, top_p, min_p, penalty, biases});
  return all;
}

// The tokens for one row of logits under each of the settings, and what is written to the recent
// tokens.
struct Chosen {
  std::vector<double> tokens, recent;
};
Chosen choose(const std::vector<double>& row) {
  const std::vector<std::vector<double>> settings = all_settings();
  const int64_t slots = std::ssize(settings), vocabulary = std::ssize(row);
  Graph graph;
  Builder b(graph, ops::table());
  ops::NamedTensors named;
  auto input = [&](const char* name, const Type& type, bool is_state = false) {
    named[name] = {type, std::vector<double>(static_cast<size_t>(type.shape.elements()), 0)};
    return is_state ? b.state(name, type) : b.input(name, type);
  };
  const ValueId logits = input("logits", {DType::kF32, {slots, vocabulary}});
  const ValueId tokens = input("tokens", {DType::kI32, {slots}}, true);
  const ValueId recent = input("recent", {DType::kI32, {slots, kRecent}}, true);
  const ValueId positions = input("positions", {DType::kI32, {slots}});
  const ValueId options = input("settings", {DType::kF32, {slots, 6}});
  const ValueId seeds = input("seeds", {DType::kI32, {slots}});
  const ValueId biased = input("biased", {DType::kI32, {slots, 1}});
  const ValueId biases = input("biases", {DType::kF32, {slots, 1}});
  graph.outputs =
      b.call_all("sample", {logits, tokens, recent, positions, options, seeds, biased, biases});
  for (size_t s = 0; s < settings.size(); ++s) {
    std::copy(row.begin(), row.end(),
              named["logits"].data.begin() + static_cast<std::ptrdiff_t>(s * row.size()));
    std::copy(settings[s].begin(), settings[s].end(),
              named["settings"].data.begin() + static_cast<std::ptrdiff_t>(6 * s));
    named["positions"].data[s] = static_cast<double>(s);
    named["seeds"].data[s] = 5;
  }
  GraphRun run(tested_backend(), lower(graph, ops::table(), tested_backend()));
  run.write(named);
  run.run();
  EXPECT_TRUE(run.guards_are_intact());
  Chosen chosen{run.outputs()[0].data, {}};
  const std::vector<double> written = run.outputs()[1].data;
  for (int64_t s = 0; s < slots; ++s)
    chosen.recent.push_back(written[static_cast<size_t>(s * kRecent + s % kRecent)]);
  // The reference follows the same rule.
  const std::vector<double> expected = ops::ReferenceRun(graph, named).outputs()[0].data;
  for (size_t s = 0; s < settings.size(); ++s) {
    EXPECT_EQ(chosen.tokens[s] < 0, expected[s] < 0) << s;
    if (settings[s][0] == 0) {
      EXPECT_EQ(chosen.tokens[s], expected[s]) << s;
    }
  }
  return chosen;
}

// Longer than a block of a kernel, one that is no multiple of a vector, and one of one logit.
constexpr size_t kVocabularies[] = {1, 4, 67, 5003, 9000};

std::vector<double> finite_row(size_t vocabulary) {
  std::vector<double> row(vocabulary);
  for (size_t i = 0; i < vocabulary; ++i) row[i] = static_cast<double>(i * 37 % 101) / 16 - 3;
  return row;
}

void expect_no_token(const std::vector<double>& row, const std::string& what) {
  SCOPED_TRACE(what);
  const Chosen chosen = choose(row);
  EXPECT_EQ(chosen.tokens, std::vector<double>(chosen.tokens.size(), -1));
  EXPECT_EQ(chosen.recent, chosen.tokens);
}

TEST(NoToken, OfARowWithNanOrInfinity) {
  for (size_t vocabulary : kVocabularies)
    for (double bad : {kNan, -kNan, kInfinity})
      for (size_t at : std::set<size_t>{0, vocabulary / 2, vocabulary - 1}) {
        std::vector<double> row = finite_row(vocabulary);
        row[at] = bad;
        expect_no_token(row, fmt::format("{} at {} of {}", bad, at, vocabulary));
        row.assign(vocabulary, -kInfinity);
        row[at] = bad;
        expect_no_token(row, fmt::format("{} at {} of {} x -infinity", bad, at, vocabulary));
      }
}

TEST(NoToken, OfARowWithoutAFiniteLogit) {
  for (size_t vocabulary : kVocabularies)
    for (double bad : {kNan, kInfinity, -kInfinity})
      expect_no_token(std::vector<double>(vocabulary, bad),
                      fmt::format("{} x {}", vocabulary, bad));
}

TEST(NoToken, IsNeverOneOfMinusInfinity) {
  for (size_t vocabulary : kVocabularies) {
    std::vector<double> row(vocabulary, -kInfinity);
    const std::set<size_t> finite{vocabulary / 3, vocabulary / 2, vocabulary - 1};
    for (size_t at : finite) row[at] = -50 - static_cast<double>(at % 5);
    for (double token : choose(row).tokens)
      EXPECT_TRUE(finite.contains(static_cast<size_t>(token))) << token << " of " << vocabulary;
  }
}

TEST(NoToken, IsATokenOfTheLargestNumbers) {
  const std::vector<double> row{3.25e38, -3.25e38, 0, 3.25e38};
  for (double token : choose(row).tokens) EXPECT_TRUE(token == 0 || token == 3) << token;
}

}  // namespace
}  // namespace ridge::backends
