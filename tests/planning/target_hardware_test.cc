// SPDX-License-Identifier: Apache-2.0
// The hardware of a plan by its name or file.
#include "planning/target_hardware.h"

#include <gtest/gtest.h>

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

TEST(TargetHardware, AGpuUnlessThisMachineHasNone) {
  EXPECT_TRUE(is_gpu_plan("h100", false));
  EXPECT_FALSE(is_gpu_plan("this", false));
  EXPECT_TRUE(is_gpu_plan("this", true));
}

}  // namespace
}  // namespace ridge::planning
