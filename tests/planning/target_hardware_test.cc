// SPDX-License-Identifier: Apache-2.0
// The hardware of a plan by its name or file.
#include "planning/target_hardware.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "cost/hardware.h"
#include "files/scratch.h"
#include "planning/planned.h"

namespace ridge::planning {
namespace {

TEST(TargetHardware, ReadsWhatMachinePrints) {
  files::ScratchFolder folder;
  cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("h100"));
  ceilings.machine.isa = "sm_90";
  ceilings.measured_at = "2026-01-02T03:04:05Z";
  ceilings.products[1].peak_flops_per_ns = 700'000;
  const std::string path = (folder / "gpu.json").string();
  files::write_plain(path, cost::to_json(ceilings));
  const TargetHardware place = choose_hardware(path, no_machine(), false);
  const cost::ReferenceRate rate = place.ceilings.mfu_reference(DType::kBF16);
  EXPECT_EQ(rate.per_ns, 700e3);
  EXPECT_EQ(rate.data_sheet_per_ns, 989.5e3);
  EXPECT_EQ(place.source, path + ", measured 2026-01-02T03:04:05Z");
  EXPECT_TRUE(is_gpu_plan(path, false));
  EXPECT_THROW(choose_hardware(path, no_machine(), true), Error);
}

TEST(TargetHardware, AListNamesSeveral) {
  const std::vector<TargetHardware> all = hardware_list("A100,h100,MI300X");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].name, "a100");
  EXPECT_EQ(all[2].title, "AMD Instinct MI300X");
  for (const char* wrong : {"h100,,a100", "h100,h1", "", "nothing.json"})
    EXPECT_THROW(hardware_list(wrong), Error) << wrong;
  std::string many = "h100";
  for (int i = 0; i < 16; ++i) many += ",h100";
  EXPECT_THROW(hardware_list(many), Error);
}

// One graph, launched kernel by kernel and replayed: the host's time counts only for the first.
TEST(TargetHardware, AReplayedGraphCostsNoHost) {
  const auto plan = [](const char* switches, double enqueue_us) {
    const TrainingPlanRequest request = preset_request("tiny", "kernels", switches);
    std::vector<TargetHardware> places = hardware_list("h100");
    set_enqueue_time(places[0], enqueue_us);
    return plan_training(request, places, ignore_trials)[0].record;
  };
  const record::RunRecord launched = plan("", 0), replayed = plan("+capture", 0);
  ASSERT_EQ(launched.launches, replayed.launches);
  EXPECT_EQ(launched.planned_bytes, replayed.planned_bytes);
  EXPECT_GT(launched.predicted_ns, 4000 * static_cast<double>(launched.launches));
  EXPECT_GT(launched.predicted_ns, replayed.predicted_ns);
  EXPECT_GT(plan("", 10).predicted_ns, 10'000 * static_cast<double>(launched.launches));
  EXPECT_LT(plan("", 0.1).predicted_ns, 1.01 * replayed.predicted_ns);
  EXPECT_EQ(plan("+capture", 10).predicted_ns, replayed.predicted_ns);
}

TEST(TargetHardware, RefusesEnqueueTimesOutOfRange) {
  TargetHardware place = choose_hardware("h100", no_machine(), false);
  for (double wrong : {-1.0, 1e7, std::nan("")}) EXPECT_THROW(set_enqueue_time(place, wrong), Error);
  const size_t notes = place.ceilings.notes.size();
  set_enqueue_time(place, 7);
  EXPECT_EQ(place.ceilings.notes.size(), notes);  // the stated time is the one that holds
  EXPECT_NE(place.ceilings.notes.back().find("7.0 us"), std::string::npos);
}

TEST(TargetHardware, AGpuUnlessThisMachineHasNone) {
  EXPECT_TRUE(is_gpu_plan("h100", false));
  EXPECT_FALSE(is_gpu_plan("this", false));
  EXPECT_TRUE(is_gpu_plan("this", true));
}

}  // namespace
}  // namespace ridge::planning
