// SPDX-License-Identifier: Apache-2.0
// The changes of options that make a step fit, to the byte, and those that do not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/units.h"
#include "files/scratch.h"
#include "planning/planned.h"
#include "planning/plans.h"

namespace ridge::planning {
namespace {

constexpr int64_t kPlenty = int64_t{1} << 50;

// Plans of a small model on a device with as many bytes as the test says.
class PlanChanges : public testing::Test {
 protected:
  PlanChanges() {
    request_.setup.config.layers = 2;
    request_.setup.step.batch_size = 8;
    request_.setup.step.sequence = 128;
  }
  static record::TrainingPlan plan_of(const TrainingPlanRequest& request, int64_t memory_bytes) {
    std::vector<TargetHardware> hardware = hardware_list("a10");
    hardware[0].memory_bytes = memory_bytes;
    return plan_training(request, hardware, ignore_trials)[0];
  }
  record::TrainingPlan plan(int64_t memory_bytes) const { return plan_of(request_, memory_bytes); }
  // The bytes of a step after a change of the request.
  int64_t need(const std::function<void(TrainingPlanRequest&)>& change) const {
    TrainingPlanRequest changed = request_;
    change(changed);
    return plan_of(changed, kPlenty).memory.total;
  }
  // The changes of an option that a device of so many bytes is told.
  std::vector<std::string> told(int64_t memory_bytes, const std::string& option) const {
    std::vector<std::string> found = plan(memory_bytes).would_fit;
    std::erase_if(found, [&](const std::string& each) { return !each.starts_with(option); });
    return found;
  }
  static std::vector<std::string> one(const std::string& option, int64_t bytes) {
    return {fmt::format("{} ({})", option, format_bytes(bytes))};
  }

  TrainingPlanRequest request_ = preset_request("tiny", "baseline");
  static inline const std::vector<std::string> kNothing;
};

TEST_F(PlanChanges, TakeTheLowestStageOfZeroThatFits) {
  request_.setup.config.layers = 5;  // a device holds two of them whole
  request_.layout.devices = 4;
  request_.layout.zero = "0";
  const auto at = [&](const char* stage) {
    return need([&](TrainingPlanRequest& r) { r.layout.zero = stage; });
  };
  const int64_t none = at("0"), moments = at("1"), gradients = at("2"), weights = at("3");
  ASSERT_TRUE(none > moments && moments > gradients && gradients > weights);
  EXPECT_EQ(told(none, ""), kNothing) << "it fits";
  EXPECT_EQ(told(none - 1, "--zero"), one("--zero 1", moments));
  EXPECT_EQ(told(moments, "--zero"), one("--zero 1", moments));
  EXPECT_EQ(told(moments - 1, "--zero"), one("--zero 2", gradients));
  EXPECT_EQ(told(weights, "--zero"), one("--zero 3", weights));
  EXPECT_EQ(told(weights - 1, "--zero"), kNothing);
  request_.layout.devices = 1;
  EXPECT_EQ(told(weights, "--zero"), kNothing) << "a device alone has nobody to share with";
}

TEST_F(PlanChanges, TakeTheLeastRecomputationThatFits) {
  const auto at = [&](const char* recompute) {
    return need([&](TrainingPlanRequest& r) { r.recompute = recompute; });
  };
  const int64_t none = at("none"), attention = at("attention"), block = at("block");
  ASSERT_TRUE(none > attention && attention > block);
  EXPECT_EQ(told(none, ""), kNothing);
  EXPECT_EQ(told(attention, "--recompute"), one("--recompute attention", attention));
  EXPECT_EQ(told(attention - 1, "--recompute"), one("--recompute block", block));
  EXPECT_EQ(told(block, "--recompute"), one("--recompute block", block));
  EXPECT_EQ(told(1 << 20, "--recompute"), kNothing);
  request_.recompute = "block";
  EXPECT_EQ(told(block - 1, "--recompute attention"), kNothing) << "it saves less";
}

TEST_F(PlanChanges, TakeBf16UnlessItIsThere) {
  const int64_t none = need([](TrainingPlanRequest&) {}),
                bf16 = need([](TrainingPlanRequest&r) {
                  r.setup.setting.switches = "+autocast_bf16";
                  r.setup.selection = passes::Selection("baseline", "+autocast_bf16");
                });
  ASSERT_LT(bf16, none);
  EXPECT_EQ(told(bf16, "--dtype"), one("--dtype bf16", bf16));
  EXPECT_EQ(told(bf16 - 1, "--dtype"), kNothing);
  request_ = preset_request("tiny", "baseline", "+autocast_bf16");
  EXPECT_EQ(told(1 << 20, "--dtype"), kNothing);
}

TEST_F(PlanChanges, NameTheNextLargerHardware) {
  const int64_t none = need([](TrainingPlanRequest&) {});
  const std::vector<std::string> got = told(none - 1, "--hardware");
  ASSERT_EQ(got.size(), 1u);
  EXPECT_TRUE(got[0].ends_with(fmt::format(" ({})", format_bytes(none)))) << got[0];
}

// So many sequences that no single change is enough.
TEST_F(PlanChanges, AreSeveralAtOnceWhereOneIsNotEnough) {
  request_.setup.step.batch_size = int64_t{1} << 20;
  request_.setup.step.sequence = 512;
  const auto least = [](TrainingPlanRequest& r) {
    r.setup.step.batch_size = 1;
    r.recompute = "full";
  };
  const int64_t enough = need(least),
                alone = need([](TrainingPlanRequest&r) { r.setup.step.batch_size = 1; });
  ASSERT_LT(enough, alone);
  const std::string smallest = "--batch-size 1 --recompute full";
  EXPECT_EQ(plan(enough).would_fit, one(smallest, enough));
  // A byte less is enough where devices share the weights, their gradients and moments.
  const std::vector<std::string> shared = plan(enough - 1).would_fit;
  ASSERT_EQ(shared.size(), 1u);
  EXPECT_TRUE(shared[0].starts_with(smallest + " --devices ")) << shared[0];
  EXPECT_TRUE(shared[0].ends_with(" --zero 3")) << shared[0];
  EXPECT_EQ(plan(1 << 10).would_fit,
            std::vector<std::string>{
                fmt::format("nothing; with {} it takes {}", smallest, format_bytes(enough))});
}

TEST(Recompute, HasAPassForEachName) {
  EXPECT_EQ(recompute_switch("none"), "");
  EXPECT_EQ(recompute_switch("attention"), "+recompute_attention");
  EXPECT_EQ(recompute_switch("block"), "+recompute");
  EXPECT_EQ(recompute_switch("full"), "+recompute_nested");
  files::expect_error([] { recompute_switch("some"); }, ExitCode::kUsage,
                      "[recompute] expected none, attention, block or full, got ");
}

// Fused attention keeps no scores that could be computed again.
TEST(Recompute, HasNothingToDoForFusedAttention) {
  for (const char* level : {"baseline", "compiled"})
    for (const char* recompute : {"attention", "block"}) {
      TrainingPlanRequest request = preset_request("tiny", level);
      request.recompute = recompute;
      EXPECT_EQ(plan_training(request, "h100")[0].recomputes_nothing,
                level == std::string("compiled") && recompute == std::string("attention"))
          << level << recompute;
    }
}

}  // namespace
}  // namespace ridge::planning
