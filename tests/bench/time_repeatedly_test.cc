// SPDX-License-Identifier: Apache-2.0
// The number of runs in a sample.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "bench/graph_trial.h"

namespace ridge::bench {
namespace {

void spin(double ns) {
  const double begin = now_ns();
  while (now_ns() - begin < ns) {
  }
}

// The most runs of 10 us between two waits. Other programs make runs longer, so it is the most of a
// few tries.
int64_t most_runs(double wait_ns) {
  int64_t most = 0;
  for (int tries = 0; tries < 4; ++tries) {
    int64_t runs = 0;
    time_repeatedly(
        [&] {
          ++runs;
          spin(10e3);
        },
        [&] {
          most = std::max(most, runs), runs = 0;
          if (wait_ns > 0) spin(wait_ns);
        },
        5e6, [] { return false; });
  }
  return most;
}

// A device idles while the host waits for it: 20 us at the end of 20 runs would add a tenth.
TEST(TimeRepeatedly, WaitsForADeviceAreFew) { EXPECT_GT(most_runs(20e3), 40); }

// Where nothing is waited for, short samples show how much the machine is disturbed.
TEST(TimeRepeatedly, SamplesWithoutAWaitAreShort) { EXPECT_LE(most_runs(0), 20); }

TEST(TimeRepeatedly, RunsOnceAtLeast) {
  int64_t runs = 0;
  const Summary none = time_repeatedly([&] { ++runs; }, [] {}, 0, [] { return true; });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(none.count, 0);
}

}  // namespace
}  // namespace ridge::bench
