// SPDX-License-Identifier: Apache-2.0
// Plans of training: shares of named peaks, state spread over devices, recomputation, and changes
// that make a step fit.
#include "planning/plans.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "models/known_shapes.h"
#include "planning/planned.h"

namespace ridge::planning {
namespace {

// MFU is a share of one named rate, the vendor's for a data sheet, and never exceeds it.
TEST(TrainingPlan, NamesThePeakOfItsShare) {
  for (const char* hardware : {"a6000", "h100", "mi300x"})
    for (const char* preset : {"tiny", "large"})
      for (const char* switches : {"", "+tf32", "+autocast_bf16"}) {
        if (hardware == std::string("mi300x") && switches == std::string("+tf32")) continue;
        TrainingPlanRequest request = preset_request(preset, "compiled", switches);
        request.setup.step.batch_size = 1;
        const record::TrainingPlan got = plan_training(request, hardware)[0];
        EXPECT_LE(got.mfu(), 1) << hardware << preset << switches;
        const double flops = 2 * static_cast<double>(got.record.model.step().macs);
        EXPECT_NEAR(got.mfu(), flops / got.step_ns / got.peak.per_ns, 1e-9);
      }
  const auto tf32 = plan_training(preset_request("small", "compiled", "+tf32"), "h100");
  EXPECT_EQ(tf32[0].peak.per_ns, 494.5e3);
  EXPECT_EQ(tf32[0].record.setting.dtype, "tf32");
  EXPECT_THROW(hardware_list("mi210", true), Error);
}

TEST(TrainingPlan, SpreadsStateOverDevices) {
  TrainingPlanRequest request = preset_request("large");
  auto plan = [&](const record::PlanLayout& layout) {
    request.layout = layout;
    return plan_training(request, "h100")[0];
  };
  const record::TrainingPlan alone = plan({});
  const auto n = static_cast<double>(alone.record.parameters);
  const auto peaks = alone.record.memory.class_peaks();
  auto peak = [&](plan::MemoryClass each) { return peaks.bytes[static_cast<size_t>(each)]; };
  // The classes have their peaks at different times, so that a device needs less than their sum.
  int64_t sum = 0;
  for (const auto& [name, bytes] : alone.memory.classes) sum += bytes;
  EXPECT_EQ(alone.memory.total, alone.record.memory.owned_bytes);
  EXPECT_LT(alone.memory.total, sum);
  // The graph's own bytes are those of the closed form.
  EXPECT_EQ(static_cast<double>(peak(plan::MemoryClass::kParameters)), 4 * n);
  EXPECT_EQ(static_cast<double>(peak(plan::MemoryClass::kOptimizerState)), 8 * n);
  models::ModelConfig fewer = models::preset("large").config;
  fewer.layers -= 1;
  const double layer = n - static_cast<double>(fewer.parameters()),
               table = static_cast<double>(fewer.vocabulary * fewer.hidden);
  int64_t before = 0;
  for (const char* stage : {"3", "2", "1", "0"}) {
    const record::TrainingPlan got = plan({.devices = 8, .zero = stage});
    EXPECT_GT(got.memory.total, before) << stage;
    before = got.memory.total;
    EXPECT_EQ(bytes_of(got.memory, "activations"), peak(plan::MemoryClass::kActivations));
    EXPECT_EQ(static_cast<double>(bytes_of(got.memory, "moments")),
              8 * n / (stage[0] == '0' ? 1 : 8));
    // A device holds its share of spread weights, the part that computes and the next one.
    EXPECT_NEAR(static_cast<double>(bytes_of(got.memory, "weights")),
                stage[0] == '3' ? 4 * (n / 8 + std::max(layer, table) + layer) : 4 * n, 1);
    EXPECT_NEAR(got.days, 1e9 / got.tokens_per_s() / 86400, 1e-9);
  }
  EXPECT_EQ(before, static_cast<int64_t>(16 * n) + peak(plan::MemoryClass::kActivations) +
                        peak(plan::MemoryClass::kData));
  // A ring sends 2 (P - 1) / P of the gradients at 80% of half of NVLink's 900 GB/s.
  const record::TrainingPlan plain = plan({.devices = 8, .zero = "0"});
  EXPECT_NEAR(plain.sent_bytes, 2 * 7.0 / 8 * 4 * n, 1);
  EXPECT_NEAR(plain.exchange_ns, 7 * n / 360, 1);
  const record::TrainingPlan slow = plan({.devices = 16, .zero = "0", .network = 0.5});
  EXPECT_GT(slow.exposed_ns, 0);
  EXPECT_GT(slow.step_ns, plain.step_ns);
  const record::TrainingPlan types =
      plan({.weight_dtype = "bf16", .gradient_dtype = "bf16", .moment_dtype = "i8"});
  EXPECT_EQ(types.bytes_per_parameter.total(), 6);
  EXPECT_EQ(static_cast<double>(bytes_of(types.memory, "moments")), 2 * n);
}

TEST(TrainingPlan, RecomputesForMemory) {
  TrainingPlanRequest request = preset_request("large", "baseline");
  int64_t before = std::numeric_limits<int64_t>::max();
  double time = 0;
  for (const char* recompute : {"none", "attention", "block", "full"}) {
    request.recompute = recompute;
    const record::TrainingPlan got = plan_training(request, "h100")[0];
    const int64_t activations =
        got.record.memory.class_peaks().bytes[static_cast<size_t>(plan::MemoryClass::kActivations)];
    EXPECT_LT(activations, before) << recompute;
    EXPECT_GT(got.step_ns, time) << recompute;
    before = activations;
    time = got.step_ns;
  }
  EXPECT_THROW(recompute_switch("some"), Error);
}

TrainingPlanRequest llama_7b(int64_t batch, int64_t sequence) {
  const models::ModelConfig* config = models::find_known_shape("llama-2-7b");
  TrainingPlanRequest request = request_of(config->name, *config, "compiled", "+autocast_bf16");
  request.setup.step.batch_size = batch;
  request.setup.step.sequence = sequence;
  return request;
}

TEST(TrainingPlan, ShowsPublishedActivationModelsBesideTheGraph) {
  TrainingPlanRequest request = llama_7b(1, 2048);
  auto planned = [&](const char* recompute) {
    request.recompute = recompute;
    return plan_training(request, "b200")[0];
  };
  const double sbh = 2048.0 * 4096;
  const record::TrainingPlan none = planned("none");
  EXPECT_EQ(none.korthikanti_bytes, 32 * sbh * (34 + 5 * 32 * 2048.0 / 4096));
  EXPECT_EQ(none.nano_gpt.activations,
            32 * (36 * sbh + 6 * 32 * 2048.0 * 2048) + 6 * sbh + 6 * 2048.0 * 32000);
  EXPECT_EQ(planned("attention").korthikanti_bytes, 32 * sbh * 34);
  EXPECT_EQ(planned("block").korthikanti_bytes, 32 * sbh * 2);
}

// The request with one change of a plan, such as "--devices 4 --zero 3 (70 GB)", and the hardware
// that the change names.
std::string apply(const std::string& change, TrainingPlanRequest& request) {
  std::string hardware = "a100", option, value;
  std::istringstream words(change);
  while (words >> option && option[0] == '-' && words >> value) {
    if (option == "--zero") request.layout.zero = value;
    if (option == "--devices") request.layout.devices = std::stoll(value);
    if (option == "--batch-size") request.setup.step.batch_size = std::stoll(value);
    if (option == "--seq-len") request.setup.step.sequence = std::stoll(value);
    if (option == "--recompute") request.recompute = value;
    if (option == "--hardware") hardware = value;
  }
  return hardware;
}

TEST(TrainingPlan, SaysWhatWouldFit) {
  TrainingPlanRequest request = llama_7b(64, 512);
  request.layout.devices = 2;
  const record::TrainingPlan unfit = plan_training(request, "a100")[0];
  ASSERT_FALSE(unfit.fits);
  ASSERT_GE(unfit.would_fit.size(), 3u);
  // Each change by itself makes it fit.
  for (const std::string& change : unfit.would_fit) {
    TrainingPlanRequest changed = request;
    const std::string hardware = apply(change, changed);
    EXPECT_TRUE(plan_training(changed, hardware)[0].fits) << change;
  }
}

std::vector<TargetHardware> hardware_of(int64_t memory_bytes) {
  std::vector<TargetHardware> hardware = hardware_list("a10");
  hardware[0].memory_bytes = memory_bytes;
  return hardware;
}

// Devices that have exactly the bytes of four shares are enough by four; a byte less takes five.
TEST(TrainingPlan, FindsTheFewestDevicesToTheByte) {
  TrainingPlanRequest request = preset_request("tiny");
  auto plan = [&](int64_t devices, int64_t memory_bytes) {
    request.layout = {.devices = devices, .zero = "3"};
    return plan_training(request, hardware_of(memory_bytes), ignore_trials)[0];
  };
  const record::TrainingPlan four = plan(4, int64_t{1} << 40);
  ASSERT_EQ(four.record.parameters % 4, 0);
  auto suggested = [&](int64_t memory_bytes) {
    std::string text;
    for (const std::string& change : plan(2, memory_bytes).would_fit)
      if (change.starts_with("--devices")) text += change;
    return text;
  };
  EXPECT_EQ(suggested(four.memory.total), "--devices 4 --zero 3");
  EXPECT_EQ(suggested(four.memory.total - 1), "--devices 5 --zero 3");
}

// The largest batch and the longest context fit, and one more does not.
TEST(TrainingPlan, FindsTheLargestThatFits) {
  TrainingPlanRequest request = preset_request("tiny");
  request.setup.config.layers = 1;
  request.setup.step.batch_size = 3;
  request.setup.step.sequence = 64;
  const auto planned = [&](int64_t batch, int64_t sequence) {
    TrainingPlanRequest changed = request;
    changed.setup.step.batch_size = batch;
    changed.setup.step.sequence = sequence;
    return plan_training(changed, hardware_of(int64_t{100} << 20), ignore_trials)[0];
  };
  const record::TrainingPlan got = planned(3, 64);
  ASSERT_GT(got.largest_batch, 3);
  ASSERT_LT(got.largest_batch, record::kMostPlannedBatch);
  EXPECT_TRUE(planned(got.largest_batch, 64).fits);
  EXPECT_FALSE(planned(got.largest_batch + 1, 64).fits);
  ASSERT_GT(got.longest_context, 64);
  ASSERT_LT(got.longest_context, got.most_context);
  EXPECT_TRUE(planned(3, got.longest_context).fits);
  EXPECT_FALSE(planned(3, got.longest_context + 1).fits);
  const record::TrainingPlan unfit = planned(got.largest_batch + 1, 64);
  const auto suggests = [&](const std::string& option) {
    return std::ranges::count(unfit.would_fit, option) == 1;
  };
  EXPECT_TRUE(suggests(fmt::format("--batch-size {}", got.largest_batch)));
  EXPECT_TRUE(suggests(fmt::format("--seq-len {}", unfit.longest_context)));
}

TEST(TrainingPlan, SuggestsNoSizeWhereNoneFits) {
  const record::TrainingPlan got =
      plan_training(preset_request("tiny"), hardware_of(1 << 20), ignore_trials)[0];
  EXPECT_EQ(got.largest_batch, 0);
  EXPECT_EQ(got.longest_context, 0);
  for (const std::string& change : got.would_fit) {
    EXPECT_NE(change, "--batch-size 0");
    EXPECT_FALSE(change.starts_with("--seq-len")) << change;
  }
}

TEST(TrainingPlan, TellsOfItsSearches) {
  std::vector<std::string> searches;
  plan_training(preset_request("tiny"), hardware_list("a10"),
                [&](std::string_view search, std::string_view, const std::string& trial) {
                  EXPECT_FALSE(trial.empty());
                  if (searches.empty() || searches.back() != search) searches.emplace_back(search);
                });
  EXPECT_EQ(searches, (std::vector<std::string>{"largest batch", "longest context"}));
}

}  // namespace
}  // namespace ridge::planning
