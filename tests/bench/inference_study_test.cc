// SPDX-License-Identifier: Apache-2.0
// The techniques of a study of inference take away what they say and compute the same logits;
// published times are found by their keys.
#include "bench/technique_study.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "cost/made_up_ceilings.h"
#include "models/known_shapes.h"
#include "serve/real_model.h"

namespace ridge::bench {
namespace {

const Technique& technique(std::string_view name) {
  for (const Technique& each : techniques())
    if (each.name == name) return each;
  throw InternalError("no such technique");
}

measure::InferenceExperiment experiment(const Technique& by, int64_t batch, int64_t length) {
  measure::InferenceExperiment e;
  e.selection = passes::Selection(by.level, std::string(by.switches) + ",+store_f32,-tune_gemm");
  e.setting.task = "prefill";
  e.batch = batch;
  e.length = length;
  e.repeats = {3, 3, 1};
  return with_technique(std::move(e), by);
}

PhasePoints planned(const char* model, std::string_view by, int64_t batch, int64_t length) {
  const models::ModelFile file = models::ModelFile::of_shape(*models::find_known_shape(model));
  return plan_technique(file, experiment(technique(by), batch, length), serve::cpu_backend(),
                        cost::made_up_ceilings({{int64_t{1} << 30, 10, 10}}, 100), 0);
}

TEST(InferenceStudy, TechniquesTakeAwayWhatTheyAreNamedFor) {
  const auto at = [](const char* by) { return planned("smollm2-135m", by, 2, 1024); };
  const PhasePoints eager = at("eager"), compiled = at("compiled"), flash = at("flash"),
                    efficient = at("memory-efficient"), paged = at("paged"), tuned = at("tuned");
  EXPECT_LT(compiled.prefill.launches, eager.prefill.launches);
  EXPECT_LT(compiled.decode.launches, eager.decode.launches);
  EXPECT_LT(flash.prefill.planned_bytes, compiled.prefill.planned_bytes);
  EXPECT_LT(tuned.decode.launches, paged.decode.launches);
  // The scores of 9 heads: 1024 x 1024 for a whole prompt, and 256 x 1024 at a time.
  const int64_t scores = int64_t{4} * 9 * 1024 * 1024;
  // Compiled keeps them once, partly in memory that flash attention's layers need, too.
  EXPECT_GT(eager.prefill.owned_bytes, compiled.prefill.owned_bytes);
  EXPECT_GT(compiled.prefill.owned_bytes, flash.prefill.owned_bytes + scores / 2);
  EXPECT_GT(compiled.prefill.owned_bytes, efficient.prefill.owned_bytes + scores / 4);
  // Blocks of 16 positions hold 1024 as exactly as one does.
  EXPECT_EQ(paged.prefill.work.macs, flash.prefill.work.macs);
  EXPECT_EQ(paged.prefill.compulsory_bytes > 0, true);
  // Both runs multiply all weights but the embedding, and read the same keys.
  EXPECT_EQ(flash.decode.work.macs, compiled.decode.work.macs);
}

std::vector<float> logits_of(const measure::InferenceExperiment& e) {
  models::ModelConfig config = models::config_by_name("tiny");
  config.context = e.length;
  const models::ModelFile file = models::ModelFile::of_shape(config);
  const auto records = measure::measure_phases(file, e, serve::cpu_backend(), nullptr);
  return records ? records->prefill.logits : std::vector<float>();
}

// 270 positions: not whole blocks, and more than one chunk of memory-efficient.
constexpr int64_t kLength = 270;

// All but tuned have the same made-up weights: merged ones are made up otherwise.
TEST(InferenceStudy, TechniquesComputeTheSameLogits) {
  const std::vector<float> expected = logits_of(experiment(technique("eager"), 2, kLength));
  ASSERT_FALSE(expected.empty());
  for (const char* name : {"compiled", "flash", "memory-efficient", "paged"}) {
    const std::vector<float> logits = logits_of(experiment(technique(name), 2, kLength));
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t i = 0; i < logits.size(); ++i)
      ASSERT_NEAR(logits[i], expected[i], 2e-4) << name << " at " << i;
  }
}

// Where keys and values lie changes no bit.
TEST(InferenceStudy, PagesChangeNoBit) {
  measure::InferenceExperiment e = experiment(technique("tuned"), 3, kLength);
  ASSERT_TRUE(e.pages);
  const std::vector<float> paged = logits_of(e);
  e.pages = false;
  ASSERT_FALSE(paged.empty());
  EXPECT_EQ(paged, logits_of(e));
}

TEST(InferenceStudy, NeedsMemoryBeforeItAllocates) {
  const models::ModelFile file =
      models::ModelFile::of_shape(*models::find_known_shape("llama-2-70b"));
  const PhasePoints points =
      plan_technique(file, experiment(technique("flash"), 1, 128), serve::cpu_backend(),
                     cost::made_up_ceilings({{int64_t{1} << 30, 10, 10}}, 100), int64_t{1} << 30);
  EXPECT_NE(points.prefill.refused.find("of memory"), std::string::npos);
  EXPECT_TRUE(points.decode.lacks_memory);
  EXPECT_EQ(points.prefill.predicted_ns, 0) << "it cannot run";
}

TEST(InferenceStudy, SpeedupsCompareLikeWithLike) {
  std::vector<record::BenchPoint> points(4);
  for (size_t i = 0; i < points.size(); ++i) points[i].phase = "prefill";
  points[0].predicted_ns = 1000;  // before `first`
  points[1].predicted_ns = 40, points[1].time = {7, 60, 60, 60, 1};
  points[2].predicted_ns = 20, points[2].time = {7, 15, 15, 15, 1};
  points[3].predicted_ns = 10;
  add_speedups(points, 1);
  EXPECT_FALSE(points[1].speedup);
  EXPECT_DOUBLE_EQ(*points[2].speedup, 4);  // measured
  EXPECT_DOUBLE_EQ(*points[3].speedup, 4);  // predicted, though the first was measured
}

TEST(InferenceStudy, FindsPublishedTimes) {
  published_times() = {{"A, fast", "small", "eager", false, 64, 2, 5},
                       {"B, slow", "small", "eager", false, 64, 2, 7},
                       {"A, fast", "small", "eager", true, 64, 2, 1}};
  EXPECT_EQ(published_ns("small", "eager", "prefill", 2, 64),
            (std::map<std::string, double>{{"A, fast", 5e6}, {"B, slow", 7e6}}));
  EXPECT_EQ(published_ns("small", "eager", "decode", 2, 64).size(), 1u);
  EXPECT_TRUE(published_ns("small", "eager", "decode", 2, 65).empty());
  published_times().clear();
}

TEST(InferenceStudy, RefusesUnknownTechniques) {
  EXPECT_EQ(choose_techniques("all").size(), techniques().size());
  EXPECT_EQ(choose_techniques("flash,eager")[0].name, "flash");
  EXPECT_THROW(choose_techniques("flash,"), Error);
  EXPECT_THROW(choose_techniques("fast"), Error);
  EXPECT_THROW(choose_techniques("flash,flash"), Error);
}

}  // namespace
}  // namespace ridge::bench
