// SPDX-License-Identifier: Apache-2.0
// Another program's work on our cores is measured; our own work is not counted.
#include "measure/cpu_load.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <thread>

#include "base/clock.h"

namespace ridge::measure {
namespace {

void work(double ns) {
  volatile uint64_t sum = 0;
  for (double begin = now_ns(); now_ns() - begin < ns;) sum = sum + 1;
}

TEST(CpuLoad, SeesOtherPrograms) {
  if (!std::ifstream("/proc/stat")) GTEST_SKIP() << "this system has no /proc/stat";
  CpuLoad load;
  pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0)
    for (;;) work(1e9);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  double share = load.others_share();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  // One core's worth if this program may use only one core, and a smaller share if it may use more.
  EXPECT_GE(share, 0.5 / std::thread::hardware_concurrency());
  EXPECT_LE(share, 1);
}

TEST(CpuLoad, DoesNotCountOurOwnWork) {
  const double cores = std::thread::hardware_concurrency();
  CpuLoad load;
  double begin_ns = now_ns();
  std::clock_t begin = std::clock();
  work(1e9);
  double own_s = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  double wall_s = (now_ns() - begin_ns) * 1e-9;
  // The counters move in ticks of 10 ms per core.
  EXPECT_LE(load.others_share(), 1 - own_s / (wall_s * cores) + 0.03);
}

}  // namespace
}  // namespace ridge::measure
