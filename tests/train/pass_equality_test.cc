// SPDX-License-Identifier: Apache-2.0
// The requirement on every pass: training with it follows the baseline's loss, alone, at each level
// and in random combinations. The tolerance is rounding in fp32, and 0.02 in bf16.
#include <gtest/gtest.h>

#include "cost/cost.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

constexpr int kSteps = 20;

std::vector<double> follow(std::string_view level, std::string_view switches) {
  StepOptions options = small_step(kLearningByHeart);
  options.loss_scaling.initial = 256;  // no gradient of these weights overflows
  return FixedRun(small_config(), options, level, switches).steps(kSteps);
}

const std::vector<double>& baseline() {
  static const std::vector<double> losses = follow("baseline", "");
  return losses;
}

// The effect of rounding on this run: the baseline, starting from weights moved by one rounding.
// AdamW divides gradients by their own size, so that rounding in a small gradient becomes a step of
// the same size as any other. A pass sums in another order and so rounds in many places.
double rounding_allowed() {
  static const double allowed = [] {
    double top = 0;
    for (double noise : {0.6, 0.8, 1.0}) {
      FixedRun run(small_config(), small_step(kLearningByHeart), "baseline", "", 1,
                   noise * 0x1p-23);
      top = std::max(top, largest_difference(baseline(), run.steps(kSteps)));
    }
    return 4 * top;
  }();
  return allowed;
}

// The passes that training supports and that leave all parameters to be trained.
std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const passes::Pass* pass : passes::pipeline(cpu_backend(1)->passes()))
    if (pass->name != "store_bf16" && pass->name != "lora") names.emplace_back(pass->name);
  return names;
}

bool changes_types(std::string_view switches) {
  return switches.find("autocast") != std::string_view::npos;
}

void expect_baseline(std::string_view level, const std::string& switches) {
  SCOPED_TRACE(fmt::format("{} {}", level, switches));
  std::vector<double> got = follow(level, switches);
  if (!changes_types(switches)) {
    EXPECT_LE(largest_difference(baseline(), got), rounding_allowed());
    return;
  }
  // In 16 bits, the steep part of the curve comes a little earlier or later; both ends are the
  // same.
  EXPECT_NEAR(got[0], baseline()[0], 0.02);
  EXPECT_NEAR(got[kSteps - 1], baseline()[kSteps - 1], 0.02);
  EXPECT_LE(largest_difference(baseline(), got), 0.15);
}

TEST(PassEquality, TheBaselineLearns) {
  EXPECT_GT(baseline()[0], 4.5);
  EXPECT_LT(baseline()[kSteps - 1], 0.1);
  EXPECT_LT(rounding_allowed(), 5e-4) << "the tolerance says nothing";
  EXPECT_GT(rounding_allowed(), 1e-6);
}

// Checks that a wrong gradient would be detected: a learning rate that is 1% smaller is.
TEST(PassEquality, NoticesAHundredthOfAStep) {
  FixedRun run(small_config(), small_step(kLearningByHeart * 0.99), "baseline", "");
  EXPECT_GT(largest_difference(baseline(), run.steps(kSteps)), 20 * rounding_allowed());
}

class EachPass : public testing::TestWithParam<std::string> {};
TEST_P(EachPass, AloneFollowsTheBaseline) { expect_baseline("baseline", "+" + GetParam()); }
INSTANTIATE_TEST_SUITE_P(All, EachPass, testing::ValuesIn(pass_names()), [](const auto& each) {
  return each.param;
});

TEST(PassEquality, LevelsFollowTheBaseline) {
  for (const passes::Level& level : passes::levels())
    for (const char* switches : {"", "+recompute", "+autocast_bf16", "+autocast_bf16,+recompute",
                                 "+autocast_f16", "+autocast_f16,+recompute"})
      expect_baseline(level.name, switches);
}

// The levels without one of their passes.
TEST(PassEquality, EachPassCanBeLeftOut) {
  for (const std::string& name : pass_names())
    if (name != "expand" && name != "legalize") expect_baseline("compiled", "-" + name);
}

std::vector<std::string> random_switches(int count) {
  std::vector<std::string> all;
  Random random(17);
  while (static_cast<int>(all.size()) < count) {
    std::string switches;
    for (const std::string& name : pass_names())
      if (name != "expand" && name != "legalize" &&
          !(name == "autocast_f16" && changes_types(switches)) && random.below(2) == 0)
        switches += (switches.empty() ? "+" : ",+") + name;
    if (!switches.empty()) all.push_back(switches);
  }
  return all;
}

TEST(PassEquality, RandomCombinationsFollowTheBaseline) {
  for (const std::string& switches : random_switches(60)) expect_baseline("baseline", switches);
}

// With the weights and data of the training workshop.
TEST(PassEquality, Bf16StaysWithinTwoHundredths) {
  std::vector<double> fp32 = train(small_config(), small_step(), "baseline", "", kSteps);
  for (const passes::Level& level : passes::levels()) {
    std::vector<double> bf16 =
        train(small_config(), small_step(), level.name, "+autocast_bf16", kSteps);
    EXPECT_LE(largest_difference(fp32, bf16), 0.02) << level.name;
    EXPECT_GT(largest_difference(fp32, bf16), 0) << level.name << " did not run in bf16";
  }
}

// The sum over origins is the model's work, regardless of the passes' changes to nodes.
TEST(PassEquality, ModelWorkIsTheSameUnderEveryCombination) {
  auto model_work_of = [](std::string_view level, std::string_view switches) {
    FixedRun run(small_config(), small_step(), level, switches);
    return cost::model_totals(run.graphs().graphs[0].graph);
  };
  cost::ModelTotals want = model_work_of("baseline", "");
  EXPECT_GT(want.forward.macs, 0);
  EXPECT_GT(want.backward.macs, 0);
  for (const std::string& switches : random_switches(40)) {
    cost::ModelTotals got = model_work_of("baseline", switches);
    EXPECT_EQ(got.forward, want.forward) << switches;
    EXPECT_EQ(got.backward, want.backward) << switches;
    if (!changes_types(switches)) {
      EXPECT_EQ(got.optimizer, want.optimizer) << switches;
    }
  }
}

}  // namespace
}  // namespace ridge::train
