// SPDX-License-Identifier: Apache-2.0
// Runs ridge plan for inference as a user does, and checks its output and errors.
#include <nlohmann/json.hpp>

#include "apps/program_run.h"

namespace ridge::apps {
namespace {

using nlohmann::json;
using PlanAppTest = ProgramTest;

std::string small_model() { return files::test_data("models/llama_fp32").string(); }

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

TEST_F(PlanAppTest, PlansAPresetAndSaysWhatFits) {
  Output output =
      run({"plan", "--inference", "--preset", "tiny", "--hardware", "a10", "--batch-size", "2"});
  ASSERT_EQ(output.code, 0) << output.err;
  for (const char* said :
       {"TTFT", "TPOT", "MBU", "kv_cache", "largest batch at length", "longest context"})
    EXPECT_NE(output.out.find(said), std::string::npos) << said;
}

TEST_F(PlanAppTest, RefusesWhatCannotBe) {
  expect_refused({"plan", "--model", "nothing.gguf"}, 3, "nothing.gguf");
  expect_refused({"plan", "--model", small_model(), "--tokens", "1e9"}, 2, "[tokens]");
  expect_refused({"plan", "--model", small_model(), "--preset", "tiny"}, 2, "[model]");
  expect_refused({"plan", "--inference", "--hardware", "h200", "--batch-size", "0"}, 2,
                 "[batch-size]");
  expect_refused({"plan", "--inference", "--hardware", "h200", "--seq-len", "100000000"}, 2,
                 "[context]");
  expect_refused({"plan", "--inference", "--hardware", "h200", "--chunk", "0"}, 2, "[chunk]");
}

}  // namespace
}  // namespace ridge::apps
