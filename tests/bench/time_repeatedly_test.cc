// SPDX-License-Identifier: Apache-2.0
// The number of runs in a sample.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/clock.h"
#include "bench/graph_trial.h"

namespace ridge::bench {
namespace {

void spin(double ns) {
  const double begin = now_ns();
  while (now_ns() - begin < ns) {
  }
}

// The most runs between two waits, of runs and waits that take this long.
int64_t most_runs(double run_ns, double wait_ns) {
  int64_t runs = 0, most = 0;
  time_repeatedly(
      [&] {
        ++runs;
        spin(run_ns);
      },
      [&] {
        most = std::max(most, runs), runs = 0;
        spin(wait_ns);
      },
      20e6, [] { return false; });
  return most;
}

// Where the host waits for a device, samples have so many runs that the wait is of no matter.
TEST(TimeRepeatedly, ManyRunsShareAWait) {
  int64_t most = 0;
  for (int i = 0; i < 8; ++i)  // a busy machine may stop one of them
    most = std::max(most, most_runs(10e3, 100e3));
  EXPECT_GE(most, 100);
}

}  // namespace
}  // namespace ridge::bench
