// SPDX-License-Identifier: Apache-2.0
// The search for the largest batch or length that fits.
#include "cost/resource_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridge::cost {
namespace {

constexpr int64_t kMost = 1 << 20;

// Searches with every capacity that may end the search elsewhere, and counts the evaluations.
int most_evaluations(const std::function<int64_t(int64_t)>& bytes) {
  int most = 0;
  for (const int64_t answer : {0, 1, 2, 3, 4, 5, 31, 32, 1000, 65537, int(kMost) - 1, int(kMost)}) {
    for (const int64_t spare : {int64_t{0}, bytes(answer + 1) - bytes(answer) - 1}) {
      int evaluations = 0;
      const int64_t found = largest_fitting(bytes(answer) + spare, kMost, [&](int64_t n) {
        ++evaluations;
        return bytes(n);
      });
      EXPECT_EQ(found, answer) << spare;
      most = std::max(most, evaluations);
    }
  }
  return most;
}

TEST(LargestFitting, FindsTheLastThatFitsOnALineInAFewGuesses) {
  EXPECT_LE(most_evaluations([](int64_t n) { return 16000000000 + 12345678 * n; }), 6);
  EXPECT_LE(most_evaluations([](int64_t n) { return 7 * n; }), 6);
}

TEST(LargestFitting, FindsTheLastThatFitsOnACurve) {
  EXPECT_LE(most_evaluations([](int64_t n) { return 1000 + 3 * n * n; }), 40);
  EXPECT_LE(most_evaluations([](int64_t n) { return n < 30 ? n : 1000000 * n; }), 40);
}

TEST(LargestFitting, TakesAnErrorAsTooLarge) {
  EXPECT_EQ(largest_fitting(1 << 30, kMost,
                            [](int64_t n) -> int64_t {
                              if (n > 77) throw usage_error("too large");
                              return n;
                            }),
            77);
  EXPECT_EQ(largest_fitting(5, kMost, [](int64_t n) { return 10 * n; }), 0);
}

}  // namespace
}  // namespace ridge::cost
