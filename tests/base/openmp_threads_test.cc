// SPDX-License-Identifier: Apache-2.0
// Threads that share a processor are moved apart, and may then go wherever they could before.
#include "base/openmp_threads.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <vector>

namespace ridge {
namespace {

cpu_set_t allowed() {
  cpu_set_t all;
  EXPECT_EQ(::sched_getaffinity(0, sizeof(all), &all), 0);
  return all;
}

// Where OpenMP's threads may run is left as it was found.
void expect_all_allowed(int threads, const cpu_set_t& before) {
#pragma omp parallel num_threads(threads)
  {
    const cpu_set_t after = allowed();
    EXPECT_TRUE(CPU_EQUAL(&before, &after)) << omp_get_thread_num();
  }
}

using Processors = std::vector<int>;

Processors choose(const Processors& on, const Processors& allowed) {
  return choose_free_processors(on, allowed);
}

TEST(ChooseFreeProcessors, MovesThreadsThatShareAProcessor) {
  EXPECT_EQ(choose({0, 0}, {0, 1}), (Processors{-1, 1}));
  EXPECT_EQ(choose({2, 2, 5, 2}, {0, 2, 4, 5}), (Processors{-1, 0, -1, 4}));
}

TEST(ChooseFreeProcessors, LeavesThreadsThatHaveTheirOwnOrNoFreeProcessor) {
  EXPECT_EQ(choose({1, 0}, {0, 1, 2}), (Processors{-1, -1}));
  EXPECT_EQ(choose({0, 0, 0}, {0, 1}), (Processors{-1, 1, -1}));
  EXPECT_EQ(choose({3, 3}, {3}), (Processors{-1, -1}));
}

// Which threads share a processor is up to the scheduler and to the programs next to the test, so
// that a call may move any number of them, but never all.
TEST(SpreadOpenmpThreads, LeavesThreadsFreeToRunWhereTheyCould) {
  const cpu_set_t before = allowed();
  for (const int threads : {2, CPU_COUNT(&before) + 1}) {
    const OpenmpThreads more(threads);
    for (int i = 0; i < 3; ++i) EXPECT_LT(spread_openmp_threads(), threads);
    expect_all_allowed(threads, before);
  }
}

}  // namespace
}  // namespace ridge
