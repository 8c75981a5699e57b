// SPDX-License-Identifier: Apache-2.0
// The text and JSON of plans: what comes first, what is left out, and that several plans are those
// of each hardware alone.
#include "report/plan_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "files/scratch.h"
#include "models/convert.h"
#include "planning/inference_plan.h"
#include "planning/parameter_plan.h"
#include "planning/planned.h"
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
