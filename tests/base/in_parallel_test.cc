// SPDX-License-Identifier: Apache-2.0
// Tests of independent work on several threads.
#include "base/in_parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace ridge {
namespace {

TEST(InParallel, DoesEachPieceOnce) {
  for (int64_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> done(static_cast<size_t>(count));
    in_parallel(count, [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
    for (const std::atomic<int>& each : done) EXPECT_EQ(each, 1) << count;
  }
}

TEST(InParallel, EndsAllAndThrowsTheFirstError) {
  std::atomic<int> ended = 0;
  const auto work = [&](int64_t i) {
    ++ended;
    if (i % 10 == 3) throw std::runtime_error(std::to_string(i));
  };
  try {
    in_parallel(100, work);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "3");
  }
  EXPECT_EQ(ended, 100);
}

}  // namespace
}  // namespace ridge
