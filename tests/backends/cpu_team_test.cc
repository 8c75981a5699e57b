// SPDX-License-Identifier: Apache-2.0
// A team's threads run every part of every task exactly once, regardless of the leading thread and
// of errors.
#include "backends/cpu/kernels/team.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backends/cpu/kernels/partition.h"

namespace ridge::backends::cpu {
namespace {

class CpuTeam : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { omp_set_num_threads(GetParam()); }
  void TearDown() override { omp_set_num_threads(before_); }

 private:
  int before_ = omp_get_max_threads();
};
INSTANTIATE_TEST_SUITE_P(Threads, CpuTeam, testing::Values(1, 2, 3));

// Each task reads the results of the previous one.
void expect_chain(int tasks, int64_t parts) {
  std::vector<int64_t> counts(static_cast<size_t>(parts), 0);
  for (int task = 0; task < tasks; ++task) {
    for_each_part(parts, [&](int64_t index) {
      int64_t& own = counts[static_cast<size_t>((index + task) % parts)];
      EXPECT_EQ(own, task);
      ++own;
    });
  }
  for (int64_t count : counts) EXPECT_EQ(count, tasks);
}

TEST_P(CpuTeam, RunsEveryPartOnceInOrder) {
  Team::gather([] {
    for (int64_t parts : {1, 2, 3, 4, 17}) expect_chain(1000, parts);
  });
  EXPECT_EQ(Team::here(), nullptr);
  expect_chain(10, 3);
}

// Waits longer than any thread spins, for a task and for a part.
TEST_P(CpuTeam, WakesWhoSleeps) {
  Team::gather([] {
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      expect_chain(2, 4);
      for_each_part(2, [](int64_t index) {
        if (index == 1) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      });
    }
  });
}

// Waiting threads prefetch what they read next: also bytes that are no whole lines, and none.
TEST_P(CpuTeam, ReadsWhileItWaits) {
  const std::vector<std::byte> next(1000);
  Team::gather([&] {
    for (int64_t bytes : {0, 1, 64, 1000}) {
      for_each_part(3, [&](int64_t) { Team::read_when_idle(next.data(), bytes); });
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      expect_chain(100, 4);
    }
  });
}

TEST_P(CpuTeam, IsOneWithinAnother) {
  Team::gather([] {
    Team* outer = Team::here();
    Team::gather([&] {
      EXPECT_EQ(Team::here(), outer);
      expect_chain(10, 4);
    });
    EXPECT_EQ(Team::here(), outer);
    // Nested parts run on the thread of the outer part.
    for_each_part(3, [](int64_t) {
      EXPECT_EQ(Team::here(), nullptr);
      expect_chain(3, 2);
    });
  });
}

TEST_P(CpuTeam, ThrowsOnAndComesApart) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(Team::gather([] {
                   expect_chain(5, 4);
                   throw std::runtime_error("a kernel's complaint");
                 }),
                 std::runtime_error);
    EXPECT_EQ(Team::here(), nullptr);
    expect_chain(5, 4);
  }
}

TEST_P(CpuTeam, HasOneLeaderEach) {
  const int threads = GetParam();
  auto lead = [threads] {
    omp_set_num_threads(threads);
    for (int i = 0; i < 20; ++i) Team::gather([] { expect_chain(50, 5); });
  };
  std::thread other(lead);
  lead();
  other.join();
}

}  // namespace
}  // namespace ridge::backends::cpu
