// SPDX-License-Identifier: Apache-2.0
// Threads that share a processor are moved apart, and may then go wherever they could before.
#include "base/openmp_threads.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>


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

TEST(SpreadOpenmpThreads, MovesThreadsThatShareAProcessor) {
  const cpu_set_t before = allowed();
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "this process may use one processor";
  const OpenmpThreads two(2);
  start_openmp_threads();
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  // On a busy machine Linux may move one of them before they are counted.
  int moved = 0;
  for (int tries = 0; tries < 100 && moved == 0; ++tries) {
#pragma omp parallel
    {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(first, &one);
      EXPECT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
      EXPECT_EQ(::sched_setaffinity(0, sizeof(before), &before), 0);
    }
    moved = spread_openmp_threads();
  }
  EXPECT_EQ(moved, 1);
  expect_all_allowed(2, before);
}

TEST(SpreadOpenmpThreads, LeavesThreadsWithoutAFreeProcessor) {
  const cpu_set_t before = allowed();
  const int threads = CPU_COUNT(&before) + 1;
  const OpenmpThreads more(threads);
  for (int i = 0; i < 3; ++i) EXPECT_LT(spread_openmp_threads(), threads);
  expect_all_allowed(threads, before);
}

}  // namespace
}  // namespace ridge
