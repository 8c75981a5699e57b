// SPDX-License-Identifier: Apache-2.0
// Runs ridge plan as a user does. What it plans is tested in tests/planning.
#include <nlohmann/json.hpp>

#include "apps/program_run.h"
#include "cost/ceilings.h"
#include "cost/hardware.h"

namespace ridge::apps {
namespace {

using nlohmann::json;
using PlanAppTest = ProgramTest;

std::string small_model() { return test_data("models/llama_fp32").string(); }

TEST_F(PlanAppTest, PlansEachBatchAndLengthOfAModel) {
  Output output = run({"plan", "--model", small_model(), "--hardware", "h200", "--batch-size",
                       "1,4", "--seq-len", "16,64", "--json"});
  ASSERT_EQ(output.code, 0) << output.err;
  json got = json::parse(output.out);
  ASSERT_EQ(got["plans"].size(), 4u);
  for (const json& each : got["plans"]) {
    const double tokens = each["batch_size"].get<double>();
    EXPECT_NEAR(each["decode"]["tokens_per_s"].get<double>(),
                tokens * 1e9 / each["decode"]["predicted_ns"].get<double>(), 1e-3);
    for (const char* phase : {"prefill", "decode"}) {
      EXPECT_GT(each[phase]["mfu"], 0);
      EXPECT_LE(each[phase]["mbu"], 1);
    }
    EXPECT_GT(each["class_peak_bytes"]["kv_cache"], 0);
  }
  EXPECT_EQ(got["largest_batches"].size(), 2u);
  EXPECT_EQ(got["longest_contexts"].size(), 2u);
}

json training_plan(const Output& output) {
  EXPECT_EQ(output.code, 0) << output.err;
  return json::parse(output.out);
}

// The plan of clipping and accumulation is the memory that training then owns.
TEST_F(PlanAppTest, CountsClippingAndAccumulation) {
  const std::vector<std::string> common = {
      "--preset", "tiny", "--device", "cpu", "--clip", "1", "--micro-batches", "2", "--json"};
  std::vector<std::string> plan = {"plan"}, train = {"train", "--steps", "1", "--warmup", "0"};
  plan.insert(plan.end(), common.begin(), common.end());
  train.insert(train.end(), common.begin(), common.end());
  json planned = training_plan(run(plan)), trained = training_plan(run(train));
  EXPECT_EQ(planned["memory"]["owned_bytes"], trained["runs"][0]["memory"]["allocated_bytes"]);
  EXPECT_EQ(planned["micro_batches"], 2);
}

// A lecture on resource accounting (CS336): 70B parameters and 15T tokens take 1,024 H100 144 days.
TEST_F(PlanAppTest, PlansFromANumberOfParameters) {
  const std::vector<std::string> command = {
      "plan",       "--parameters", "70e9",  "--tokens", "15e12",   "--devices", "1024",
      "--hardware", "h100",         "--mfu", "0.5",      "--price", "2",         "--json"};
  const json got = training_plan(run(command));
  EXPECT_EQ(got["flops"], 6.3e24);
  const double days = got["assumed_mfu_days"];
  EXPECT_GE(days, 143);
  EXPECT_LE(days, 144);
  EXPECT_EQ(got["zero"], 3);  // the lowest stage that fits
  EXPECT_NEAR(got["device_hours"].get<double>(), days * 24 * 1024, 1);
  EXPECT_NEAR(got["cost"].get<double>(), days * 24 * 1024 * 2, 1);
  EXPECT_NEAR(got["energy_kwh"].get<double>(), days * 24 * 1024 * 0.7, 1);
  std::vector<std::string> plain = command;
  plain.insert(plain.end(), {"--zero", "0"});
  const json unfit = training_plan(run(plain));
  EXPECT_EQ(unfit["fits"], false);
  EXPECT_TRUE(unfit["assumed_mfu_days"].is_null() && unfit["cost"].is_null());
  EXPECT_EQ(unfit["would_fit"][0].get<std::string>().rfind("--zero 3", 0), 0u);
}

// A file of ceilings stands for its machine, so the options of this one have no effect.
TEST_F(PlanAppTest, PlansWhatMachinePrints) {
  cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("h100"));
  ceilings.machine.isa = "sm_90";
  ceilings.measured_at = "2026-01-02T03:04:05Z";
  files::write_plain(folder_ / "gpu.json", cost::to_json(ceilings));
  const json got = training_plan(
      run({"plan", "--preset", "small", "--hardware", "gpu.json", "--dtype", "bf16", "--json"}));
  EXPECT_EQ(got["mfu_peak"]["source"], "measured");
  expect_refused({"plan", "--hardware", "gpu.json", "--tf32"}, 2, "with TF32");
  expect_refused({"plan", "--hardware", "gpu.json", "--threads", "2"}, 2, "[threads]");
}

TEST_F(PlanAppTest, RefusesLayoutsThatCannotBe) {
  expect_refused({"plan", "--hardware", "h100", "--parameters", "0"}, 2, "[parameters]");
  expect_refused({"plan", "--hardware", "h100", "--network", "0", "--devices", "2"}, 2,
                 "[network]");
  expect_refused({"plan", "--hardware", "h100", "--zero", "4", "--devices", "2"}, 2, "[zero]");
  expect_refused({"plan", "--hardware", "h100", "--zero", "1"}, 2, "without --devices");
  expect_refused({"plan", "--hardware", "h100", "--moment-dtype", "q4_0"}, 2, "[moment-dtype]");
  expect_refused({"plan", "--hardware", "h100", "--weight-dtype", "i8"}, 2, "[weight-dtype]");
  expect_refused({"plan", "--hardware", "h100", "--recompute", "some"}, 2, "[recompute]");
  expect_refused({"plan", "--hardware", "h100", "--recompute", "block", "--pass", "+recompute"}, 2,
                 "got both");
  expect_refused({"plan", "--hardware", "h100,,a100"}, 2, "[hardware]");
  expect_refused({"plan", "--hardware", "h100,h1"}, 2, "[hardware]");
  expect_refused({"plan", "--parameters", "7e9", "--preset", "tiny"}, 2, "with --parameters");
}

// Quants of 8 bits, with a scale per head and position, beside bf16.
TEST_F(PlanAppTest, CachesOfQuantsOnAGpu) {
  const auto plan = [&](const char* cache) {
    const Output output = run({"plan", "--inference", "--preset", "small", "--hardware", "h200",
                               "--cache-dtype", cache, "--json"});
    EXPECT_EQ(output.code, 0) << output.err;
    return json::parse(output.out);
  };
  const json bf16 = plan("bf16")["plans"][0]["decode"], i8 = plan("i8")["plans"][0]["decode"];
  const auto bytes = [](const json& made) { return made["cache_bytes"].get<double>(); };
  EXPECT_DOUBLE_EQ(bytes(i8) / bytes(bf16), (64.0 + 4) / (2 * 64));
  EXPECT_LT(i8["planned_bytes"], bf16["planned_bytes"]);
  EXPECT_EQ(plan("fp8")["plans"][0]["decode"], i8);
}

TEST_F(PlanAppTest, RefusesWhatCannotBe) {
  expect_refused({"plan", "--model", "nothing.gguf"}, 3, "nothing.gguf");
  expect_refused({"plan", "--model", small_model(), "--tokens", "1e9"}, 2, "[tokens]");
  expect_refused({"plan", "--model", small_model(), "--micro-batches", "2"}, 2,
                 "in a plan of inference");
  expect_refused({"plan", "--preset", "tiny", "--hardware", "h100", "--batch-size", "1,2"}, 2,
                 "[batch-size] expected one number, got the list");
  expect_refused({"plan", "--hardware", "mi210", "--tf32"}, 2, "which AMD Instinct MI210 does not");
  expect_refused({"train", "--preset", "tiny", "--device", "cpu", "--tf32"}, 2, "needs a GPU");
  expect_refused({"plan", "--model", small_model(), "--hardware", "h200", "--cache-dtype", "fp32"},
                 2, "[cache-dtype] expected bf16, the type of activations, i8 or fp8, on a GPU");
  expect_refused({"plan", "--model", small_model(), "--preset", "tiny"}, 2, "[model]");
  expect_refused({"plan", "--inference", "--hardware", "h200", "--batch-size", "0"}, 2,
                 "[batch-size]");
  expect_refused({"plan", "--inference", "--hardware", "h200", "--seq-len", "100000000"}, 2,
                 "[seq-len]");
  expect_refused({"plan", "--inference", "--hardware", "h200", "--batch-size", "5000"}, 2,
                 "[batch-size]");
  expect_refused({"plan", "--inference", "--hardware", "h200", "--chunk", "0"}, 2, "[chunk]");
}

}  // namespace
}  // namespace ridge::apps
