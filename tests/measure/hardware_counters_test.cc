// SPDX-License-Identifier: Apache-2.0
// Counters of events that every system has (page faults), in all threads; and the reason where the
// processor's own are not there.
#include "measure/hardware_counters.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <sys/mman.h>

#include <array>
#include <barrier>
#include <thread>

namespace ridge::measure {
namespace {

constexpr std::array<HardwareEvent, 2> kFaults = {
    {{PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, &record::HardwareCounts::cycles},
     {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, &record::HardwareCounts::instructions}}};

void touch_pages(int count) {
  constexpr size_t kPage = 4096;
  const size_t bytes = kPage * static_cast<size_t>(count);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  for (size_t at = 0; at < bytes; at += kPage) static_cast<volatile char*>(memory)[at] = 1;
  ::munmap(memory, bytes);
}

TEST(HardwareCounters, CountAllThreadsBetweenStartAndStop) {
  record::HardwareCounts counts;
  std::barrier begin(2), end(2);
  std::thread other([&] {
    begin.arrive_and_wait();
    touch_pages(300);
    end.arrive_and_wait();
  });
  touch_pages(1000);  // before the start
  HardwareCounters counters(kFaults);
  counters.start();
  begin.arrive_and_wait();
  touch_pages(500);
  end.arrive_and_wait();
  counters.stop(counts);
  touch_pages(1000);  // after the end
  other.join();
  // Page faults can be counted unless the system forbids it.
  if (counts.reason.starts_with("the system does not") || counts.reason.starts_with("this "))
    GTEST_SKIP() << counts.reason;
  ASSERT_EQ(counts.reason, "");
  ASSERT_EQ(counts.cycles.size(), 1u);
  EXPECT_GE(counts.cycles[0], 800);
  EXPECT_LT(counts.cycles[0], 1000);
  EXPECT_EQ(counts.instructions.size(), 1u);
  counters.start();
  counters.stop(counts);
  ASSERT_EQ(counts.cycles.size(), 2u);
  EXPECT_LT(counts.cycles[1], 100);
}

TEST(HardwareCounters, AnEventThatIsNotThereHasAReason) {
  constexpr std::array<HardwareEvent, 1> kNone = {
      {{PERF_TYPE_HARDWARE, 0xffff, &record::HardwareCounts::cycles}}};
  record::HardwareCounts counts;
  HardwareCounters counters(kNone);
  counters.start();
  counters.stop(counts);
  EXPECT_FALSE(counts.reason.empty());
  EXPECT_TRUE(counts.cycles.empty());
}

// The processor's events are counted, or there is a reason, but not both.
TEST(HardwareCounters, TheProcessorsEventsAreCountedOrExplained) {
  record::HardwareCounts counts;
  HardwareCounters counters;
  counters.start();
  volatile double sum = 0;
  for (int i = 0; i < 1'000'000; ++i) sum = sum + i;
  counters.stop(counts);
  ASSERT_EQ(counts.reason.empty(), counts.cycles.size() == 1);
  if (!counts.reason.empty()) GTEST_SKIP() << counts.reason;
  EXPECT_GT(counts.instructions[0], 1e6);
}

}  // namespace
}  // namespace ridge::measure
