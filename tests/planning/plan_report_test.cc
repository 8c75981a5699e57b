// SPDX-License-Identifier: Apache-2.0
// The text and JSON of plans: what comes first, what is left out, and that several plans are those
// of each hardware alone.
#include "report/plan_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "files/scratch.h"
#include "models/convert.h"
#include "models/known_shapes.h"
#include "planning/planned.h"
#include "planning/plans.h"
#include "serve/real_model.h"
#include "serve/session_choice.h"

namespace ridge::planning {
namespace {

using nlohmann::json;

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(PlanReport, SaysFirstThatAStepDoesNotFit) {
  TrainingPlanRequest request = preset_request("large", "compiled", "+autocast_bf16");
  request.setup.step.batch_size = 512;
  const auto plans = plan_training(request, "a10");
  const std::string text = report::training_plan_text(plans, false, {});
  EXPECT_LT(text.find("DOES NOT FIT"), text.find("per step"));
  EXPECT_FALSE(has(text, "days as predicted"));
  const json got = json::parse(report::training_plan_json(plans));
  EXPECT_EQ(got["fits"], false);
  for (const char* key : {"predicted_days", "energy_kwh", "cost", "assumed_mfu_days"})
    EXPECT_TRUE(got[key].is_null()) << key;
}

record::InferencePlan plan_of_70b(const std::string& hardware,
                                  std::vector<int64_t> batches,
                                  const std::string& switches = "") {
  InferencePlanRequest request;
  request.setup.selection = serve::inference_selection({.on_gpu = true}, "compiled", switches);
  request.batches = std::move(batches);
  request.lengths = {16};
  return plan_inference(models::ModelFile::of_shape(*models::find_known_shape("llama-2-70b")),
                        request, choose_hardware(hardware, no_machine(), false), ignore_trials);
}

// The column that says so must not be the one that a narrow terminal leaves out.
TEST(PlanReport, SaysAtAnyWidthThatInferenceDoesNotFit) {
  const record::InferencePlan none = plan_of_70b("h100", {1, 8});
  for (const int columns : {200, 100, 80, 60}) {
    const std::string text =
        report::inference_plan_text(none, false, {.columns = columns, .fit = true});
    EXPECT_LT(text.find("DOES NOT FIT: the least needs 1"), text.find("TTFT")) << text;
    EXPECT_TRUE(has(text, "owned memory\n")) << text;
    EXPECT_TRUE(has(text, ", does not fit\n")) << text;
    EXPECT_EQ(has(text, "not shown at this width"), columns <= 100);
    EXPECT_FALSE(has(text, "not shown at this width: owned memory"));
  }
  const std::string some = report::inference_plan_text(plan_of_70b("h200", {1, 4096}), false,
                                                       {.columns = 80, .fit = true});
  EXPECT_TRUE(has(some, "1 of the 2 plans below DO NOT FIT")) << some;
  const std::string all =
      report::inference_plan_text(plan_of_70b("mi300x", {1}), false, {.columns = 80, .fit = true});
  EXPECT_FALSE(has(all, "FIT")) << all;
  EXPECT_TRUE(has(all, "not shown at this width: owned memory")) << all;
}

// Twice as many devices take less time, but not half: the collectives of the layers remain.
TEST(PlanReport, OfDevicesThatShareAModelHasTheirCommonTimes) {
  const record::InferencePlan four = plan_of_70b("mi210", {8}, "+shard_tensor_parallel=4"),
                              eight = plan_of_70b("mi210", {8}, "+shard_tensor_parallel=8");
  EXPECT_EQ(eight.ranks, 8);
  for (const auto& phase : {&record::PhaseRecords::prefill, &record::PhaseRecords::decode}) {
    const double slow = (four.plans[0].records.*phase).predicted_ns,
                 fast = (eight.plans[0].records.*phase).predicted_ns;
    EXPECT_LT(fast, slow);
    EXPECT_GT(fast, slow / 2);
  }
  const std::string text = report::inference_plan_text(eight, false, {});
  EXPECT_TRUE(has(text, "shared by 8 such devices")) << text;
  const auto parsed = nlohmann::json::parse(report::inference_plan_json(eight));
  EXPECT_EQ(parsed["ranks"], 8);
  EXPECT_LT(parsed["plans"][0]["prefill"]["mfu"], 1);
  EXPECT_GT(parsed["plans"][0]["prefill"]["mfu"], 0);
}

TEST(PlanReport, NamesTheSharesThatItAssumes) {
  const TrainingPlanRequest request = preset_request("tiny");
  const std::string shares = "GEMM 80%, memory 85%";
  for (const char* hardware : {"h100", "h100,a100"}) {
    auto plans = plan_training(request, hardware);
    std::string text = report::training_plan_text(plans, false, {});
    EXPECT_TRUE(has(text, shares)) << text;
    EXPECT_EQ(text.find(shares), text.rfind(shares)) << "once for all";
    // The notes of a measurement are no assumptions.
    for (record::TrainingPlan& plan : plans)
      plan.hardware.ceilings.measured_at = "2026-01-02T03:04:05Z";
    text = report::training_plan_text(plans, false, {});
    EXPECT_FALSE(has(text, shares)) << text;
    EXPECT_TRUE(has(report::training_plan_text(plans, true, {}), shares));
  }
  EXPECT_TRUE(has(report::inference_plan_text(plan_of_70b("h100", {1}), false, {}), shares));
}

TEST(PlanReport, NamesThePeakOfEachShare) {
  const json got =
      json::parse(report::training_plan_json(plan_training(preset_request("tiny"), "h100")));
  EXPECT_EQ(got["mfu_peak"]["source"], "data sheet");
  EXPECT_NEAR(got["predicted_mfu"].get<double>(),
              got["model_macs"].get<double>() * 2e9 / got["predicted_step_ns"].get<double>() /
                  got["mfu_peak"]["per_s"].get<double>(),
              1e-9);
}

TEST(PlanReport, ComparesHardwareSideBySide) {
  const TrainingPlanRequest request = preset_request("large", "compiled", "+autocast_bf16");
  const char* const names[] = {"a100", "h100", "h200", "mi300x"};
  const auto plans = plan_training(request, "a100,h100,h200,mi300x");
  const json got = json::parse(report::training_plan_json(plans));
  ASSERT_EQ(got["plans"].size(), 4u);
  const std::string text = report::training_plan_text(plans, false, {});
  for (size_t i = 0; i < std::size(names); ++i) {
    const auto alone = plan_training(request, names[i]);
    EXPECT_EQ(got["plans"][i], json::parse(report::training_plan_json(alone))) << names[i];
    EXPECT_TRUE(has(text, names[i]));
  }
  const auto counted = plan_parameters({{}, 7e9, 1e9, 0.4}, hardware_list("a100,mi355x"));
  EXPECT_TRUE(has(report::parameter_plan_text(counted, {}), "mi355x"));
}

TEST(PlanReport, InferenceNamesWeightsAndLimits) {
  files::ScratchFolder folder;
  models::convert_to_gguf(models::ModelFile::open(serve::data_folder() + "gemma3_bf16"),
                          folder / "q8.gguf", {.type = DType::kQ8_0});
  InferencePlanRequest request;
  request.setup.selection = serve::inference_selection({.on_gpu = true}, "compiled", "");
  request.batches = {2};
  request.lengths = {16};
  const record::InferencePlan plan =
      plan_inference(models::ModelFile::open(folder / "q8.gguf"), request,
                     choose_hardware("a10", no_machine(), false), ignore_trials);
  const std::string text = report::inference_plan_text(plan, true, {});
  for (const char* said : {"weights held in bf16 and f32; in the file q8_0", "TTFT", "TPOT", "MBU",
                           "kv_cache", "largest batch at length", "longest context"})
    EXPECT_TRUE(has(text, said)) << said;
  const json got = json::parse(report::inference_plan_json(plan));
  EXPECT_EQ(got["mbu_peak"]["per_s"], 600e9);
  EXPECT_EQ(got["plans"][0]["prefill"]["mfu_peak"]["per_s"], 125e12);
  const json& decode = got["plans"][0]["decode"];
  EXPECT_NEAR(decode["tokens_per_s"].get<double>(), 2e9 / decode["predicted_ns"].get<double>(),
              1e-3);
}

}  // namespace
}  // namespace ridge::planning
