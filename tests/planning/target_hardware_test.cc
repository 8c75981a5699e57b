// SPDX-License-Identifier: Apache-2.0
// The hardware of a plan by its name or file.
#include "planning/target_hardware.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/cpu_backend.h"
#include "backends/null/null_backend.h"
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
  for (double wrong : {-1.0, 1e7, std::nan("")})
    EXPECT_THROW(set_enqueue_time(place, wrong), Error);
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

cost::Ceilings measured(const std::string& isa) {
  cost::Ceilings c = cost::ceilings_of(*cost::find_hardware("h100"));
  c.machine.device = "a device";
  c.machine.isa = isa;
  c.machine.memory_bytes = 123;
  c.measured_at = "2026-01-02T03:04:05Z";
  c.launch_ns = 100, c.round_ns = 7;
  return c;
}

// A machine whose target and CPU are told apart by their tiles.
ThisMachine machine_of(const std::string& isa) {
  const auto target = [](int64_t tile) {
    return [tile] { return backends::null::make_null_target({.query_tile = tile}); };
  };
  return {target(16), target(32), [isa] { return measured(isa); }};
}
std::string file_of(const files::ScratchFolder& folder, const std::string& isa) {
  files::write_plain(folder / "measured.json", cost::to_json(measured(isa)));
  return (folder / "measured.json").string();
}

TEST(TargetHardware, ThisMachineIsPlannedAsItIs) {
  const TargetHardware place = choose_hardware("this", machine_of("sm_90"), false);
  EXPECT_EQ(place.name, "this");
  EXPECT_EQ(place.title, measured("sm_90").machine.str());
  EXPECT_EQ(place.memory_bytes, 123);
  EXPECT_EQ(place.target, "null");
  EXPECT_EQ(place.source, "measured 2026-01-02T03:04:05Z");
  EXPECT_EQ(place.ceilings.launch_ns, 100);
  EXPECT_EQ(place.replaying, nullptr);
  // Its backend is made for the selection, which is not asked again.
  EXPECT_EQ(&place.target_of(passes::Selection("compiled", "")), place.planned.get());
  record::Setting setting;
  setting.isa = "avx2", setting.threads = 3;
  place.name_in(setting);
  EXPECT_EQ(setting.device, "null");
  EXPECT_EQ(setting.isa, "avx2");
  EXPECT_EQ(setting.threads, 3);
}

TEST(TargetHardware, AGpuElsewhereIsPlannedByItsRates) {
  const TargetHardware sheet = choose_hardware("H100", no_machine(), false);
  const cost::Hardware& h100 = *cost::find_hardware("h100");
  EXPECT_EQ(sheet.name, "h100");
  EXPECT_EQ(sheet.title, h100.title);
  EXPECT_EQ(sheet.memory_bytes, 80'000'000'000);
  EXPECT_EQ(sheet.source, h100.source);
  EXPECT_EQ(sheet.link_bytes_per_s, 450e9) << "900 GB/s in both directions";
  EXPECT_EQ(sheet.link, h100.interconnect);
  EXPECT_EQ(sheet.board_watts, 700);
  EXPECT_EQ(sheet.target, "null");
  EXPECT_EQ(&sheet.target_of(passes::Selection("kernels", "")), sheet.planned.get());
  EXPECT_EQ(&sheet.target_of(passes::Selection("compiled", "")), sheet.replaying.get());
  const files::ScratchFolder folder;
  const std::string path = file_of(folder, "sm_90");
  const TargetHardware file = choose_hardware(path, machine_of("avx2"), false);
  EXPECT_EQ(file.name, path);
  EXPECT_EQ(file.target, "null");
  EXPECT_NE(file.replaying, nullptr);
  EXPECT_EQ(file.memory_bytes, 123);
  EXPECT_EQ(file.title, measured("sm_90").machine.str());
  EXPECT_EQ(file.ceilings.launch_ns, 100 + 5 * 7) << "with five trips to memory";
  record::Setting setting;
  setting.isa = "avx2", setting.threads = 3;
  file.name_in(setting);
  EXPECT_EQ(setting.device, "null");
  EXPECT_EQ(setting.isa, "sm_90");
  EXPECT_EQ(setting.threads, 0);
}

TEST(TargetHardware, ACpuElsewhereIsPlannedWithTheKernelsHere) {
  const files::ScratchFolder folder;
  const std::string path = file_of(folder, "avx2");
  bool was_asked = false;
  ThisMachine machine = machine_of("avx512");
  machine.cpu_target = [&] {
    was_asked = true;
    return backends::null::make_null_target({});
  };
  TargetHardware place = choose_hardware(path, machine, false);
  EXPECT_TRUE(was_asked);
  EXPECT_EQ(place.target, "cpu");
  EXPECT_EQ(place.replaying, nullptr);
  EXPECT_EQ(place.ceilings.launch_ns, 100);
  EXPECT_FALSE(is_gpu_plan(path, true));
  EXPECT_EQ(choose_hardware_list(path, machine, false).size(), 1u);
}

TEST(TargetHardware, TakesCeilingsOfTheKindOfItsGemms) {
  const files::ScratchFolder folder;
  const std::string plain = file_of(folder, "sm_90");
  const auto expect = [&](const std::string& path, bool tf32, const std::string& part) {
    files::expect_error([&] { choose_hardware(path, no_machine(), tf32); }, ExitCode::kUsage, part);
  };
  expect(plain, true, "[hardware] expected ceilings with TF32 for this --dtype, got ");
  const std::string tf32 = file_of(folder, "sm_90, TF32");
  expect(tf32, false, "[hardware] expected ceilings without TF32 for this --dtype, got ");
  EXPECT_EQ(choose_hardware(tf32, no_machine(), true).memory_bytes, 123);
}

// A data sheet in a file is one of a GPU.
TEST(TargetHardware, ReadsADataSheet) {
  const files::ScratchFolder folder;
  const std::string path = (folder / "mine.json").string();
  files::write_plain(path,
                     R"({"name": "mine", "peaks": {"f32": 10, "bf16": 100}, "tf32_tera_flops": 50,
                         "memory_tera_bytes": 1.5, "memory_bytes": 80000000000})");
  const TargetHardware place = choose_hardware(path, no_machine(), true);
  EXPECT_EQ(place.title, "mine");
  EXPECT_EQ(place.source, "file " + path);
  EXPECT_EQ(place.ceilings.mfu_reference(DType::kF32).per_ns, 50e3);
  EXPECT_NE(place.replaying, nullptr);
  EXPECT_EQ(choose_hardware(path, no_machine(), false).ceilings.mfu_reference(DType::kF32).per_ns,
            10e3);
  EXPECT_TRUE(is_gpu_plan(path, false));
}

TEST(TargetHardware, NamesWhatItExpects) {
  files::expect_error(
      [] { choose_hardware("h1", no_machine(), false); }, ExitCode::kUsage,
      "[hardware] expected this, " + cost::hardware_names() + ", or a JSON file, got ");
  std::string most = "h100";
  for (int i = 1; i < 16; ++i) most += ",h100";
  EXPECT_EQ(hardware_list(most).size(), 16u);
  files::expect_error([&] { hardware_list(most + ",h100"); }, ExitCode::kUsage,
                      "[hardware] expected at most 16 names");
}

TEST(TargetHardware, TakesEnqueueTimesOfGpus) {
  TargetHardware gpu = choose_hardware("h100", no_machine(), false);
  set_enqueue_time(gpu, 1e6);
  EXPECT_EQ(gpu.ceilings.stream_launch_ns, 1e9);
  set_enqueue_time(gpu, 0);
  EXPECT_EQ(gpu.ceilings.stream_launch_ns, 1e9) << "0 changes nothing";
  files::expect_error([&] { set_enqueue_time(gpu, 1e6 + 1); }, ExitCode::kUsage,
                      "[enqueue-us] expected more than 0 and at most 1e+06, got 1e+06");
  files::expect_error([&] { set_enqueue_time(gpu, -2); }, ExitCode::kUsage, ", got -2");
  TargetHardware cpu = choose_hardware("h100", no_machine(), false);
  cpu.planned = backends::cpu::make_cpu_backend({});
  files::expect_error([&] { set_enqueue_time(cpu, 5); }, ExitCode::kUsage,
                      "[enqueue-us] expected a GPU, got ");
  EXPECT_NO_THROW(set_enqueue_time(cpu, 0));
}

}  // namespace
}  // namespace ridge::planning
