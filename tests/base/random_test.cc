// SPDX-License-Identifier: Apache-2.0
// The random generator against published values: those of the C++ standard for MT19937, and the
// weights and batches of the Tiny LLaMA training run (seed 42) of the loss oracle.
#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ridge {
namespace {

TEST(Random, IsTheStandardsMt19937) {
  // [rand.predef]: the 10000th draw of a default-seeded mt19937.
  Random random(5489);
  random.skip(9999);
  EXPECT_EQ(random.next(), 4123659995u);
}

TEST(Random, UniformIs24BitsOfADraw) {
  Random draws(7), uniforms(7);
  for (int i = 0; i < 1000; ++i) {
    float u = uniforms.uniform();
    EXPECT_EQ(u, static_cast<float>(draws.next() % (1u << 24)) / 16777216.0f);
    EXPECT_GE(u, 0.0f);
    EXPECT_LT(u, 1.0f);
  }
}

TEST(Random, SkipIsTheSameAsDrawing) {
  Random skipped(3), drawn(3);
  skipped.skip(12345);
  for (int i = 0; i < 12345; ++i) drawn.next();
  EXPECT_EQ(skipped.next(), drawn.next());
}

TEST(Random, NormalsTakeTheDrawsThatAreSaid) {
  for (int64_t n : {1, 15, 16, 17, 31, 32, 1000, 1008}) {
    Random filled(11), skipped(11);
    std::vector<float> values(static_cast<size_t>(n));
    filled.fill_normal(values, 1);
    skipped.skip(Random::normal_draws(n));
    EXPECT_EQ(filled.next(), skipped.next()) << n;
  }
}

// The shapes of the run: vocabulary 1000, hidden 512, 8
// layers, 8 heads, 4 KV heads of 64, feed-forward 2048.
constexpr int64_t kVocabulary = 1000, kModel = 512, kLayers = 8, kKeys = 4 * 64,
                  kFeedForward = 2048;
constexpr int64_t kLayer = 2 * kModel * kModel + 2 * kModel * kKeys + 3 * kModel * kFeedForward;

TEST(RandomOracle, RebuildsTheTable) {
  Random random(42);
  random.skip(2 * kVocabulary * kModel + kLayers * kLayer);  // drawn by the constructors
  random.skip(kVocabulary * kModel + kLayers * kLayer);      // the embedding and the layers
  std::vector<float> table(kVocabulary * kModel);
  random.fill_normal(table, 0.02f);
  EXPECT_NEAR(table[0], 0.00186798, 5e-9);
  EXPECT_NEAR(table[1], 0.02709378, 5e-9);
  EXPECT_NEAR(table[2], 0.01546317, 5e-9);
  EXPECT_NEAR(table[3], -0.03186454, 5e-9);
  EXPECT_NEAR(std::accumulate(table.begin(), table.end(), 0.0), -21.032001, 2e-5);
}

TEST(RandomOracle, RebuildsTheRowsAndTheFirstBatch) {
  Random random(42);
  std::vector<std::vector<uint32_t>> rows(1000, std::vector<uint32_t>(129));
  for (auto& row : rows)
    for (uint32_t& id : row) id = 1 + random.below(999);
  EXPECT_EQ(std::vector<uint32_t>(rows[0].begin(), rows[0].begin() + 6),
            (std::vector<uint32_t>{103, 436, 861, 271, 107, 72}));
  std::vector<uint32_t> order = random.permutation(1000);
  EXPECT_EQ(std::vector<uint32_t>(order.begin(), order.begin() + 8),
            (std::vector<uint32_t>{342, 748, 182, 142, 946, 47, 515, 136}));
}

TEST(Random, NormalsHaveTheirMoments) {
  Random random(1);
  std::vector<float> values(1 << 20);
  random.fill_normal(values, 0.5f);
  double sum = 0, squares = 0, fourth = 0;
  for (float value : values) {
    double v = value;
    ASSERT_TRUE(std::isfinite(v));
    sum += v;
    squares += v * v;
    fourth += v * v * v * v;
  }
  double n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 5 * 0.5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 0.25, 0.002);
  EXPECT_NEAR(fourth / n / 0.0625, 3, 0.03);
}

TEST(Random, ASizeThatIsNoMultipleOf16RedrawsItsLast16) {
  Random whole(9), odd(9);
  std::vector<float> first(32), values(21);
  whole.fill_normal(first, 1.0f);
  odd.fill_normal(values, 1.0f);
  EXPECT_TRUE(std::equal(values.begin(), values.begin() + 5, first.begin()));
  // The other 16 come from the draws after the first pass's 21.
  Random tail(9);
  tail.skip(21);
  std::vector<float> last(16);
  tail.fill_normal(last, 1.0f);
  EXPECT_TRUE(std::equal(values.begin() + 5, values.end(), last.begin()));
}

TEST(Random, BelowStaysBelowAndReachesAll) {
  Random random(11);
  for (uint32_t bound : {1u, 2u, 3u, 7u, 8u, 9u}) {
    std::vector<int> seen(bound);
    for (int i = 0; i < 1000; ++i) {
      uint32_t x = random.below(bound);
      ASSERT_LT(x, bound);
      ++seen[x];
    }
    EXPECT_GT(*std::min_element(seen.begin(), seen.end()), 0) << bound;
  }
  EXPECT_LT(random.below(0x80000001u), 0x80000001u);
}

TEST(Random, APermutationHasEachNumberOnce) {
  for (uint32_t n : {0u, 1u, 2u, 17u, 1000u}) {
    std::vector<uint32_t> order = Random(n).permutation(n);
    ASSERT_EQ(order.size(), n);
    std::sort(order.begin(), order.end());
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(order[i], i);
  }
}

}  // namespace
}  // namespace ridge
