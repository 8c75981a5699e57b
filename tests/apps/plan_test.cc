// SPDX-License-Identifier: Apache-2.0
// Runs ridge plan for inference as a user does, and checks its output and errors.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

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

// The same lecture: 8 H100 hold 40B parameters with plain AdamW, 16 bytes each.
TEST_F(PlanAppTest, FortyBillionParametersOnEightH100) {
  for (const char* dtype : {"fp32", "bf16"}) {
    const json got = training_plan(run({"plan", "--parameters", "40e9", "--devices", "8",
                                        "--hardware", "h100", "--dtype", dtype, "--json"}));
    EXPECT_EQ(got["bytes_per_parameter"], 16) << dtype;
    EXPECT_EQ(got["fits"], true) << dtype;
    EXPECT_EQ(got["largest_model_parameters"], 40'000'000'000) << dtype;
  }
  const json more = training_plan(
      run({"plan", "--parameters", "40.1e9", "--devices", "8", "--hardware", "h100", "--json"}));
  EXPECT_EQ(more["fits"], false);
}

TEST_F(PlanAppTest, SpreadsStateOverDevices) {
  auto plan = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all{"plan", "--preset", "large", "--hardware", "h100", "--json"};
    all.insert(all.end(), more);
    return training_plan(run(all));
  };
  const json alone = plan({});
  const double n = alone["parameters"];
  const json& classes = alone["memory"]["class_peak_bytes"];
  // The graph's own bytes are those of the closed form.
  EXPECT_EQ(classes["parameters"].get<double>(), 4 * n);
  EXPECT_EQ(classes["optimizer_state"].get<double>(), 8 * n);
  int64_t before = 0;
  for (const char* stage : {"3", "2", "1", "0"}) {
    const json got = plan({"--devices", "8", "--zero", stage});
    const json& device = got["device_memory"];
    EXPECT_GT(device["peak_bytes"], before) << stage;
    before = device["peak_bytes"];
    EXPECT_EQ(device["classes"]["activations"], classes["activations"]);
    EXPECT_EQ(device["classes"]["moments"].get<double>(), 8 * n / (stage[0] == '0' ? 1 : 8));
    EXPECT_NEAR(got["predicted_days"].get<double>(),
                1e9 / got["predicted_tokens_per_s"].get<double>() / 86400, 1e-9);
  }
  EXPECT_EQ(before, static_cast<int64_t>(16 * n) + classes["activations"].get<int64_t>() +
                        classes["data"].get<int64_t>());
  // A ring sends 2 (P - 1) / P of the gradients at 80% of half of NVLink's 900 GB/s.
  const json plain = plan({"--devices", "8", "--zero", "0"});
  EXPECT_NEAR(plain["sent_bytes"].get<double>(), 2 * 7.0 / 8 * 4 * n, 1);
  EXPECT_NEAR(plain["exchange_ns"].get<double>(), 7 * n / 360, 1);
  const json slow = plan({"--devices", "16", "--zero", "0", "--network", "0.5"});
  EXPECT_GT(slow["exposed_exchange_ns"], 0);
  EXPECT_GT(slow["predicted_step_ns"], plain["predicted_step_ns"]);
  const json types =
      plan({"--weight-dtype", "bf16", "--gradient-dtype", "bf16", "--moment-dtype", "i8"});
  EXPECT_EQ(types["bytes_per_parameter"], 6);
  EXPECT_EQ(types["device_memory"]["classes"]["moments"].get<double>(), 2 * n);
}

TEST_F(PlanAppTest, RecomputesForMemory) {
  int64_t before = std::numeric_limits<int64_t>::max();
  double time = 0;
  for (const char* recompute : {"none", "attention", "block", "full"}) {
    const json got =
        training_plan(run({"plan", "--preset", "large", "--hardware", "h100", "--level", "baseline",
                           "--recompute", recompute, "--json"}));
    const int64_t activations = got["memory"]["class_peak_bytes"]["activations"];
    EXPECT_LT(activations, before) << recompute;
    EXPECT_GT(got["predicted_step_ns"], time) << recompute;
    before = activations;
    time = got["predicted_step_ns"];
  }
}

TEST_F(PlanAppTest, ShowsPublishedActivationModelsBesideTheGraph) {
  auto models = [&](const char* recompute) {
    return training_plan(run({"plan", "--config", "llama-2-7b", "--batch-size", "1", "--seq-len",
                              "2048", "--hardware", "b200", "--dtype", "bf16", "--recompute",
                              recompute, "--json"}))["activation_models"];
  };
  const double sbh = 2048.0 * 4096;
  EXPECT_EQ(models("none")["korthikanti_2022_bytes"], 32 * sbh * (34 + 5 * 32 * 2048.0 / 4096));
  EXPECT_EQ(models("attention")["korthikanti_2022_bytes"], 32 * sbh * 34);
  EXPECT_EQ(models("block")["korthikanti_2022_bytes"], 32 * sbh * 2);
  EXPECT_EQ(models("none")["nano_gpt_study_2023"]["activation_bytes"],
            32 * (36 * sbh + 6 * 32 * 2048.0 * 2048) + 6 * sbh + 6 * 2048.0 * 32000);
}

TEST_F(PlanAppTest, SaysWhatWouldFit) {
  const std::vector<std::string> command = {"plan", "--config",     "llama-2-7b", "--hardware",
                                            "a100", "--dtype",      "bf16",       "--devices",
                                            "2",    "--batch-size", "64",         "--json"};
  const json unfit = training_plan(run(command));
  ASSERT_EQ(unfit["fits"], false);
  EXPECT_TRUE(unfit["predicted_days"].is_null() && unfit["energy_kwh"].is_null());
  ASSERT_GE(unfit["would_fit"].size(), 3u);
  // Each change by itself makes it fit.
  for (const json& change : unfit["would_fit"]) {
    std::istringstream words(change.get<std::string>());
    std::vector<std::string> changed = command;
    for (std::string word; words >> word && word[0] != '(';) {
      const auto at = std::find(changed.begin(), changed.end(), word);
      if (at != changed.end()) changed.erase(at, at + 2);
      changed.push_back(word);
    }
    EXPECT_EQ(training_plan(run(changed))["fits"], true) << change;
  }
}

TEST_F(PlanAppTest, ComparesHardwareSideBySide) {
  const json got = training_plan(run({"plan", "--preset", "large", "--hardware",
                                      "A100,H100,H200,MI300X", "--dtype", "bf16", "--json"}));
  ASSERT_EQ(got["plans"].size(), 4u);
  for (const json& each : got["plans"]) {
    const json alone =
        training_plan(run({"plan", "--preset", "large", "--dtype", "bf16", "--json", "--hardware",
                           each["hardware"] == "AMD Instinct MI300X"      ? "mi300x"
                           : each["hardware"] == "NVIDIA A100 SXM 80 GB"  ? "a100"
                           : each["hardware"] == "NVIDIA H200 SXM 141 GB" ? "h200"
                                                                          : "h100"}));
    EXPECT_EQ(each, alone);
  }
  const Output text = run({"plan", "--parameters", "7e9", "--hardware", "a100,mi355x"});
  EXPECT_NE(text.out.find("mi355x"), std::string::npos) << text.err;
}

TEST_F(PlanAppTest, RefusesLayoutsThatCannotBe) {
  for (const char* option : {"parameters", "tokens", "devices", "node-devices", "link", "network",
                             "price", "watts", "mfu"})
    for (const char* value : {"-1", "nan", "1e308", "inf", "99999999999999999999999", "x"}) {
      std::vector<std::string> command{"plan", "--hardware", "h100", "--devices=2"};
      if (option == std::string("devices")) command.pop_back();
      const bool exchanges = option == std::string("link") || option == std::string("network") ||
                             option == std::string("node-devices");
      if (!exchanges && option != std::string("parameters"))
        command.emplace_back("--parameters=7e9");
      command.push_back(std::string("--") + option + "=" + value);
      expect_refused(command, 2, option);
    }
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
