// SPDX-License-Identifier: Apache-2.0
// Tests of independent work on several threads.
#include "base/in_parallel.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/openmp_threads.h"

namespace ridge {
namespace {

TEST(InParallel, DoesEachPieceOnce) {
  for (int64_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> done(static_cast<size_t>(count));
    in_parallel(count, [&](int64_t i) { ++done[static_cast<size_t>(i)]; });
    for (const std::atomic<int>& each : done) EXPECT_EQ(each, 1) << count;
  }
}

TEST(InParallel, ThrowsTheFirstErrorAndBeginsNoMore) {
  std::atomic<int> begun = 0;
  const auto work = [&](int64_t i) {
    ++begun;
    if (i >= 3) throw std::runtime_error(std::to_string(i));
  };
  try {
    in_parallel(1000, work);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "3");
  }
  EXPECT_GE(begun, 4);
  EXPECT_LE(begun, 3 + omp_get_max_threads());
}

// Plans ask how many threads a kernel would have.
TEST(InParallel, HasTheCallersNumberOfThreads) {
  const OpenmpThreads three(3);
  std::atomic<int> same = 0;
  in_parallel(10, [&](int64_t) { same += omp_get_max_threads() == 3 ? 1 : 0; });
  EXPECT_EQ(same, 10);
}

}  // namespace
}  // namespace ridge
