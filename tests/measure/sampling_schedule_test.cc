// SPDX-License-Identifier: Apache-2.0
// Which steps are instrumented: plain, instrumented, instrumented, plain, in as many groups as the
// header says.
#include "measure/sampling_schedule.h"

#include <gtest/gtest.h>

#include <set>

namespace ridge::measure {
namespace {

std::set<int64_t> steps_from(int64_t first, int64_t count) {
  std::set<int64_t> steps;
  for (int64_t i = 0; i < count; ++i) steps.insert(first + i);
  return steps;
}

void expect_schedule(const SamplingSchedule& schedule,
                     const std::set<int64_t>& sampled,
                     const std::set<int64_t>& instrumented) {
  std::set<int64_t> is_sampled, is_instrumented;
  for (int64_t step = -100; step < 1000; ++step) {
    if (schedule.is_sampled(step)) is_sampled.insert(step);
    if (schedule.is_instrumented(step)) is_instrumented.insert(step);
  }
  EXPECT_EQ(is_sampled, sampled);
  EXPECT_EQ(is_instrumented, instrumented);
}

// The first 16 steps and four of each 64; every second group is reversed.
TEST(SamplingSchedule, ByAClockAroundEachLaunch) {
  std::set<int64_t> sampled = steps_from(0, 16),
                    instrumented = {1, 2, 4, 7, 9, 10, 12, 15, 64, 67, 129, 130, 192, 195};
  for (int64_t first : {64, 128, 192}) sampled.merge(steps_from(first, 4));
  expect_schedule(SamplingSchedule::training(250, false), sampled, instrumented);
  expect_schedule(SamplingSchedule::inference(250, false), sampled, instrumented);
}

TEST(SamplingSchedule, EndsWithTheRun) {
  expect_schedule(SamplingSchedule::training(3, false), {0, 1, 2}, {1, 2});
  expect_schedule(SamplingSchedule::training(1, true), {0}, {});
  expect_schedule(SamplingSchedule::nothing(100), {}, {});
}

// One step in sixteen, at least one and at most eight; seven in inference.
TEST(SamplingSchedule, ByADevicesRecorder) {
  expect_schedule(SamplingSchedule::training(20, true), {0, 1}, {1});
  expect_schedule(SamplingSchedule::training(31, true), {0, 1}, {1});
  expect_schedule(SamplingSchedule::training(32, true), steps_from(0, 4), {1, 2});
  expect_schedule(SamplingSchedule::training(127, true), steps_from(0, 14),
                  {1, 2, 5, 6, 9, 10, 13});
  for (int64_t steps : {128, 144, 900})
    expect_schedule(SamplingSchedule::training(steps, true), steps_from(0, 16),
                    {1, 2, 5, 6, 9, 10, 13, 14});
  expect_schedule(SamplingSchedule::inference(900, true), steps_from(0, 14),
                  {1, 2, 5, 6, 9, 10, 13});
}

}  // namespace
}  // namespace ridge::measure
