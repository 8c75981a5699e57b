// SPDX-License-Identifier: Apache-2.0
// Tests for the length of a training and the fall of its rate.
#include "train/training_schedule.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridge::train {
namespace {

const StepOptions kStep = [] {
  StepOptions step;
  step.batch_size = 2;
  step.sequence = 8;
  return step;
}();

TEST(TrainingSchedule, TokensBecomeSteps) {
  EXPECT_EQ(TrainingSchedule({}, kStep, false).steps, 20);
  EXPECT_EQ(TrainingSchedule({.tokens = 33}, kStep, false).steps, 3);
  const TrainingSchedule summed({.tokens = 33, .batch_tokens = 32}, kStep, false);
  EXPECT_EQ(summed.micro_batches, 2);
  EXPECT_EQ(summed.steps, 2);
  EXPECT_THROW(TrainingSchedule({.batch_tokens = 33}, kStep, false), Error);
  EXPECT_THROW(TrainingSchedule({.tokens = 0}, kStep, false), Error);
  EXPECT_THROW(TrainingSchedule({.tokens = INT64_MAX}, kStep, false), Error);
}

TEST(TrainingSchedule, TimeAloneHasNoLastStep) {
  const TrainingSchedule timed({.time = "1.5m"}, kStep, false);
  EXPECT_EQ(timed.limit_ns, 90e9);
  EXPECT_GT(timed.steps, 1'000'000);
  for (const auto& [text, seconds] : {std::pair{"7s", 7.0}, {"2h", 7200.0}, {"3d", 259200.0}})
    EXPECT_EQ(TrainingSchedule({.time = text}, kStep, false).limit_ns, seconds * 1e9) << text;
  EXPECT_EQ(TrainingSchedule({.steps = 5, .time = "1h"}, kStep, false).steps, 5);
  for (const char* text : {"", "5", "0s", "5x", "-1s"})
    EXPECT_THROW(TrainingSchedule({.time = text}, kStep, false), Error) << text;
  EXPECT_THROW(TrainingSchedule({.time = "1h", .schedule = "cosine"}, kStep, false), Error);
}

TEST(TrainingSchedule, ARateFallsAfterItHasRisen) {
  ScheduleOptions given;
  given.optimizer.warmup_steps = 2, given.optimizer.decay_begin = 4;
  for (const int64_t end : {3, 4}) {
    given.optimizer.decay_steps = end;
    EXPECT_THROW(TrainingSchedule(given, kStep, false), Error) << end;
  }
  given.optimizer.decay_steps = 5;
  EXPECT_EQ(TrainingSchedule(given, kStep, false).optimizer.decay_steps, 5);
  given.optimizer.decay_begin = 0, given.optimizer.decay_steps = 2;
  EXPECT_THROW(TrainingSchedule(given, kStep, false), Error);
}

TEST(TrainingSchedule, ARateFallsToOneThatIsNoLarger) {
  ScheduleOptions given;
  given.optimizer.learning_rate = given.optimizer.minimum_rate = 1e-3;
  EXPECT_EQ(TrainingSchedule(given, kStep, false).optimizer.minimum_rate, 1e-3);
  given.optimizer.minimum_rate = 1.1e-3;
  EXPECT_THROW(TrainingSchedule(given, kStep, false), Error);
}

TEST(TrainingSchedule, AConstantRateHasNoDecay) {
  ScheduleOptions given;
  given.schedule = "constant";
  EXPECT_EQ(TrainingSchedule(given, kStep, false).optimizer.decay_steps, 0);
  for (const int64_t steps : {1, 7}) {
    given.optimizer.decay_steps = steps;
    EXPECT_THROW(TrainingSchedule(given, kStep, false), Error) << steps;
  }
}

TEST(TrainingSchedule, WsdDecaysInTheLastTenth) {
  const TrainingSchedule made({.steps = 100, .schedule = "wsd"}, kStep, true);
  EXPECT_EQ(made.optimizer.decay_begin, 90);
  EXPECT_EQ(made.optimizer.decay_steps, 100);
  EXPECT_FALSE(made.optimizer.decays_all);
  EXPECT_THROW(TrainingSchedule({.schedule = "square"}, kStep, true), Error);
}

TEST(TrainingSchedule, StepsAndNormsHaveBounds) {
  EXPECT_NO_THROW(expect_steps(2, 2, 0));
  EXPECT_THROW(expect_steps(1, 2, 0), Error);
  EXPECT_THROW(expect_steps(2, 2, -1), Error);
  EXPECT_THROW(expect_clip(-1), Error);
}

}  // namespace
}  // namespace ridge::train
