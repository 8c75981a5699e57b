// SPDX-License-Identifier: Apache-2.0
// Two runs are the same bit by bit, in losses and in every stored value, at each level, with one
// thread and with two.
#include <gtest/gtest.h>

#include <bit>

#include "train/small_run.h"

namespace ridge::train {
namespace {

struct Setting {
  std::string level;
  std::string switches;
  int threads;
};

void PrintTo(const Setting& s, std::ostream* out) {
  *out << s.level << (s.switches.empty() ? "" : " " + s.switches) << ", " << s.threads
       << " threads";
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const passes::Level& level : passes::levels())
    for (const char* switches : {"", "+autocast_bf16"})
      for (int threads : {1, 2}) all.push_back({std::string(level.name), switches, threads});
  return all;
}

class Determinism : public testing::TestWithParam<Setting> {};

TEST_P(Determinism, FiftyStepsAreTheSameTwice) {
  const Setting& s = GetParam();
  StepOptions options = small_step(kLearningByHeart);
  options.optimizer.clip_norm = 1;
  FixedRun first(small_config(), options, s.level, s.switches, s.threads);
  FixedRun second(small_config(), options, s.level, s.switches, s.threads);
  for (int step = 0; step < 50; ++step) {
    double a = first.step(static_cast<size_t>(step)), b = second.step(static_cast<size_t>(step));
    ASSERT_EQ(std::bit_cast<uint64_t>(a), std::bit_cast<uint64_t>(b)) << "step " << step;
  }
  ASSERT_EQ(first.store().names(), second.store().names());
  for (const std::string& name : first.store().names()) {
    const Type& type = first.store().type(name);
    std::vector<uint8_t> a(static_cast<size_t>(storage_bytes(type.dtype, type.shape.elements()))),
        b(a.size());
    first.store().read(name, a.data(), static_cast<int64_t>(a.size()));
    second.store().read(name, b.data(), static_cast<int64_t>(b.size()));
    EXPECT_EQ(a, b) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Determinism, testing::ValuesIn(settings()));

}  // namespace
}  // namespace ridge::train
