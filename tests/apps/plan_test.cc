// SPDX-License-Identifier: Apache-2.0
// Runs ridge plan for inference as a user does, and checks its output and errors.
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

TEST_F(PlanAppTest, AGpuHasOneTypeOfCache) {
  const std::vector<std::string> plan{"plan",       "--model", small_model(),
                                      "--hardware", "h200",    "--cache-dtype"};
  auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> args = plan;
    args.insert(args.end(), more);
    return args;
  };
  expect_refused(with({"i8"}), 2, "[cache-dtype] expected bf16, the type of activations, on a GPU");
  expect_refused(with({"bf16", "--exact"}), 2, "[cache-dtype] expected fp32");
  Output output = run(with({"bf16", "--json"}));
  ASSERT_EQ(output.code, 0) << output.err;
  EXPECT_EQ(json::parse(output.out)["cache_dtype"], "bf16");
}

TEST_F(PlanAppTest, PlansAPresetAndSaysWhatFits) {
  Output output = run({"plan", "--inference", "--preset", "tiny", "--hardware", "a10",
                       "--batch-size", "2", "--verbose"});
  ASSERT_EQ(output.code, 0) << output.err;
  for (const char* said :
       {"TTFT", "TPOT", "MBU", "kv_cache", "largest batch at length", "longest context"})
    EXPECT_NE(output.out.find(said), std::string::npos) << said;
}

// A GPU multiplies fp32 or bf16 with its own kind. A plan of weights that stay as another type would
// be one of a run that cannot be.
TEST_F(PlanAppTest, RefusesWeightsThatAGpuCannotMultiplyAsStored) {
  for (const char* type : {"q8_0", "q4_0", "f16", "bf16"}) {
    ASSERT_EQ(run({"convert", small_model(), "model.gguf", "--type", type, "--force"}).code, 0);
    auto plan = [&](const std::vector<std::string>& more) {
      std::vector<std::string> all{"plan",         "--model", "model.gguf", "--hardware", "h100",
                                   "--batch-size", "1",       "--seq-len",  "16"};
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    SCOPED_TRACE(type);
    EXPECT_EQ(run(plan({})).code, 0);
    EXPECT_EQ(run(plan({"--exact"})).code, 0);
    for (const char* level : {"baseline", "compiled"}) {
      if (type != std::string("bf16"))
        expect_refused(plan({"--pass=-store_bf16", "--level", level}), 2, "expected +store_bf16");
      expect_refused(plan({"--exact", "--pass=-store_f32", "--level", level}), 2, "+store_f32");
    }
  }
}

json training_plan(const Output& output) {
  EXPECT_EQ(output.code, 0) << output.err;
  return json::parse(output.out);
}

// MFU and MBU are shares of one named rate, the vendor's for a data sheet, and never exceed it.
TEST_F(PlanAppTest, NamesThePeakOfEachShare) {
  for (const char* hardware : {"a6000", "h100", "mi300x"})
    for (const char* preset : {"tiny", "large"})
      for (const char* dtype : {"fp32", "tf32", "bf16"}) {
        json got = training_plan(run({"plan", "--preset", preset, "--hardware", hardware, "--dtype",
                                      dtype, "--batch-size", "1", "--json"}));
        EXPECT_LE(got["predicted_mfu"], 1) << hardware << preset << dtype;
        EXPECT_EQ(got["mfu_peak"]["source"], "data sheet");
        const double mfu = got["model_macs"].get<double>() * 2e9 /
                           got["predicted_step_ns"].get<double>() /
                           got["mfu_peak"]["per_s"].get<double>();
        EXPECT_NEAR(got["predicted_mfu"].get<double>(), mfu, 1e-9);
      }
  json infer = training_plan(
      run({"plan", "--inference", "--preset", "small", "--hardware", "a10", "--json"}));
  EXPECT_EQ(infer["mbu_peak"]["per_s"], 600e9);
  EXPECT_EQ(infer["plans"][0]["prefill"]["mfu_peak"]["per_s"], 125e12);
}

TEST_F(PlanAppTest, PlansTf32AtItsRateOrRefusesIt) {
  json tf32 =
      training_plan(run({"plan", "--preset", "small", "--hardware", "h100", "--tf32", "--json"}));
  EXPECT_EQ(tf32["mfu_peak"]["per_s"], 494.5e12);
  EXPECT_EQ(tf32["dtype"], "tf32");
  expect_refused({"plan", "--hardware", "mi210", "--tf32"}, 2, "which AMD Instinct MI210 does not");
  expect_refused({"train", "--preset", "tiny", "--device", "cpu", "--tf32"}, 2, "needs a GPU");
}

TEST_F(PlanAppTest, PlansWhatMachinePrints) {
  cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("h100"));
  ceilings.machine.isa = "sm_90";
  ceilings.measured_at = "2026-01-02T03:04:05Z";
  ceilings.products[1].peak_flops_per_ns = 700'000;
  files::write_plain(folder_ / "gpu.json", cost::to_json(ceilings));
  json got = training_plan(
      run({"plan", "--preset", "small", "--hardware", "gpu.json", "--dtype", "bf16", "--json"}));
  EXPECT_EQ(got["mfu_peak"]["source"], "measured");
  EXPECT_EQ(got["mfu_peak"]["per_s"], 700e12);
  EXPECT_EQ(got["mfu_peak"]["data_sheet_per_s"], 989.5e12);
  expect_refused({"plan", "--hardware", "gpu.json", "--tf32"}, 2, "with TF32");
  expect_refused({"plan", "--hardware", "gpu.json", "--threads", "2"}, 2, "[threads]");
}

TEST_F(PlanAppTest, SaysFirstThatAStepDoesNotFit) {
  const std::vector<std::string> command = {
      "plan", "--preset", "large", "--hardware", "a10", "--batch-size", "512", "--dtype", "bf16"};
  Output output = run(command);
  EXPECT_LT(output.out.find("DOES NOT FIT"), output.out.find("per step"));
  EXPECT_EQ(output.out.find("days as predicted"), std::string::npos);
  std::vector<std::string> as_json = command;
  as_json.emplace_back("--json");
  json got = training_plan(run(as_json));
  EXPECT_EQ(got["fits"], false);
  EXPECT_TRUE(got["predicted_days"].is_null());
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

// On a GPU `generate` unpacks a file's blocks to bf16, and a plan says so; nothing there multiplies
// blocks.
TEST_F(PlanAppTest, PlansAQuantizedFileAsItIsHeld) {
  const std::string file = (folder_ / "q8.gguf").string();
  const std::string model = test_data("models/gemma3_bf16").string();
  ASSERT_EQ(run({"convert", model, file, "--type", "q8_0"}).code, 0);
  const std::vector<std::string> plan = {
      "plan", "--model", file, "--hardware", "h100", "--batch-size", "1", "--seq-len", "16"};
  std::vector<std::string> as_json = plan, training = plan;
  as_json.emplace_back("--json");
  json got = training_plan(run(as_json));
  EXPECT_GT(got["file_bytes"]["q8_0"], 0);
  EXPECT_FALSE(got["held_bytes"].contains("q8_0"));
  EXPECT_GT(got["held_bytes"]["bf16"], got["file_bytes"]["q8_0"]);
  EXPECT_NE(run(plan).out.find("weights held in bf16 and f32; in the file q8_0"),
            std::string::npos);
  training.insert(training.end(), {"--micro-batches", "2"});
  expect_refused(training, 2, "in a plan of inference");
}

TEST_F(PlanAppTest, RefusesWhatCannotBe) {
  expect_refused({"plan", "--model", "nothing.gguf"}, 3, "nothing.gguf");
  expect_refused({"plan", "--model", small_model(), "--tokens", "1e9"}, 2, "[tokens]");
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
