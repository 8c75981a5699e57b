// SPDX-License-Identifier: Apache-2.0
// Whether a step fits into a device, and the cost of each pass that a level adds.
#include "planning/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/null/null_backend.h"
#include "cost/hardware.h"
#include "files/scratch.h"
#include "train/small_run.h"

namespace ridge::planning {
namespace {

train::TrainingSetup small_setup(const char* level, const char* switches = "") {
  train::TrainingSetup setup;
  setup.setting.model = "test";
  setup.setting.level = level;
  setup.setting.switches = switches;
  setup.config = train::small_config();
  setup.step = train::small_step();
  setup.selection = passes::Selection(level, switches);
  return setup;
}

TEST(StepFits, HasTheBytesOfThePlan) {
  const auto backend = train::cpu_backend(1);
  const train::TrainingSetup setup = small_setup("fused");
  const int64_t bytes = plan_step(setup, *backend, nullptr).memory.owned_bytes;
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(expect_step_fits(setup, *backend), bytes);
}

// A table of 2^43 numbers. Three classes of memory, the largest first.
TEST(StepFits, SaysWhatAStepNeedsThatDoesNot) {
  const auto backend = train::cpu_backend(1);
  train::TrainingSetup setup = small_setup("fused");
  setup.config.vocabulary = int64_t{1} << 24;
  setup.config.hidden = int64_t{1} << 19;
  const auto expect = [&](const char* device, const std::string& part) {
    setup.setting.device = device;
    const std::string setting = plan_step(setup, *backend, nullptr).setting.str();
    for (const std::string& each :
         {fmt::format("[memory] {} needs 128 TiB, but this {} has ", setting, part),
          std::string(" left; the largest parts are optimizer_state 64.0 TiB, gradients 32.0 TiB, "
                      "parameters 32.0 TiB; ridge plan with this model says which batch and length "
                      "fit")})
      files::expect_error([&] { expect_step_fits(setup, *backend); }, ExitCode::kOutOfMemory, each);
  };
  expect("cpu", "machine");
  expect("cuda", "GPU");
  // A device whose memory is not known may have enough.
  const auto unknown = backends::null::make_null_backend();
  ASSERT_EQ(unknown->available_bytes(), 0);
  EXPECT_GT(expect_step_fits(setup, *unknown), int64_t{1} << 40);
}

std::vector<std::string> names(const std::vector<const passes::Pass*>& passes) {
  std::vector<std::string> names;
  for (const passes::Pass* pass : passes) names.emplace_back(pass->name);
  return names;
}

TEST(AddedPasses, AreThoseThatBaselineLacks) {
  const auto gpu = backends::null::make_null_backend();
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(added_passes(passes::Selection("baseline", ""), *gpu)), Names());
  // In the order in which they run, whatever the order of the switches.
  EXPECT_EQ(names(added_passes(passes::Selection("baseline", "+recompute,+fuse_glu"), *gpu)),
            (Names{"fuse_glu", "recompute"}));
  // Those of another backend are none of this one's.
  const Names kernels = names(added_passes(passes::Selection("kernels", ""), *gpu));
  EXPECT_EQ(std::ranges::count(kernels, "fuse_rope_append"), 1);
  EXPECT_EQ(std::ranges::count(kernels, "fuse_gate_up"), 0);
  EXPECT_EQ(std::ranges::count(kernels, "expand"), 0) << "it is in baseline";
}

TEST(PassCosts, AreOfOnePassMoreEach) {
  const auto gpu = backends::null::make_null_backend();
  const cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("h100"));
  const auto of = [](const char* switches) {
    train::TrainingSetup setup = small_setup("baseline", switches);
    setup.config.layers = 4;
    return setup;
  };
  const train::TrainingSetup setup = of("+fuse_glu,+recompute=2");
  std::vector<std::string> told;
  const std::vector<record::PassCost> costs =
      pass_costs(setup, *gpu, ceilings, [&](std::string_view pass) { told.emplace_back(pass); });
  EXPECT_EQ(told, (std::vector<std::string>{"fuse_glu", "recompute"}));
  ASSERT_EQ(costs.size(), 3u);
  EXPECT_EQ(costs[0].pass, "");
  EXPECT_EQ(costs[0].summary, passes::levels()[0].summary);
  EXPECT_EQ(costs[1].pass, "fuse_glu");
  EXPECT_EQ(costs[2].pass, "recompute");
  for (size_t i = 1; i < 3; ++i)
    EXPECT_EQ(costs[i].summary, added_passes(setup.selection, *gpu)[i - 1]->summary);
  const char* const switches[] = {"", "+fuse_glu", "+fuse_glu,+recompute=2"};
  for (size_t i = 0; i < 3; ++i) {
    const record::RunRecord want = plan_step(of(switches[i]), *gpu, &ceilings);
    EXPECT_EQ(costs[i].planned.planned_bytes, want.planned_bytes) << switches[i];
    EXPECT_EQ(costs[i].planned.launches, want.launches) << switches[i];
    EXPECT_EQ(costs[i].planned.executed, want.executed) << switches[i];
    EXPECT_EQ(costs[i].planned.predicted_ns, want.predicted_ns) << switches[i];
    EXPECT_GT(costs[i].planned.predicted_ns, 0);
  }
  EXPECT_LT(costs[1].planned.launches, costs[0].planned.launches);
  EXPECT_GT(costs[2].planned.executed.flops, costs[1].planned.executed.flops);
  // Two layers are kept together, not one.
  EXPECT_NE(costs[2].planned.memory.owned_bytes,
            plan_step(of("+fuse_glu,+recompute"), *gpu, &ceilings).memory.owned_bytes);
}

}  // namespace
}  // namespace ridge::planning
