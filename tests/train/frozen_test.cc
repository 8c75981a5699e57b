// SPDX-License-Identifier: Apache-2.0
// Frozen parameters and adapters in training: what stays, what moves, what is not kept.
#include <gtest/gtest.h>

#include "files/scratch.h"
#include "train/saved_state.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

StepOptions frozen_step(std::vector<std::string> patterns) {
  StepOptions options = small_step(kLearningByHeart);
  options.frozen = std::move(patterns);
  return options;
}

std::map<std::string, std::vector<float>> stored(FixedRun& run, const std::string& suffix = "") {
  std::map<std::string, std::vector<float>> saved;
  runtime::save_states(run.graphs().load, run.store(), suffix,
                       [&](const std::string& name, const Type&, std::vector<float> data) {
                         saved[name] = std::move(data);
                       });
  return saved;
}

class Frozen : public testing::TestWithParam<std::string> {};

TEST_P(Frozen, ParametersStayAndHaveNoMoments) {
  for (int64_t micro_batches : {1, 2}) {
    StepOptions options = frozen_step({"*embed_tokens*", "model.layers.0.*", "*q_proj*"});
    options.micro_batches = micro_batches;
    FixedRun run(small_config(), options, GetParam(), "-tune_gemm");
    const auto before = stored(run);
    run.steps(3);
    const auto moments = stored(run, kFirstMoment);
    for (const auto& [name, values] : stored(run)) {
      const bool is_frozen = name.find("embed_tokens") != std::string::npos ||
                             name.starts_with("model.layers.0.") ||
                             name.find("q_proj") != std::string::npos;
      EXPECT_EQ(values == before.at(name), is_frozen) << name;
      EXPECT_EQ(moments.contains(name), !is_frozen) << name;
    }
    EXPECT_EQ(moments.size(), 8u + 1);
    for (const std::string& name : run.store().names())
      EXPECT_TRUE(!name.starts_with("model.layers.0.") || name.ends_with("weight") ||
                  name.ends_with(".bf16"))
          << name;
  }
}

// The first moments after one step are a tenth of the gradients.
TEST_P(Frozen, OthersHaveTheGradientsOfTheWholeModel) {
  for (const models::ModelConfig& config : {small_config(), small_gemma()}) {
    FixedRun whole(config, frozen_step({}), GetParam(), "-tune_gemm"),
        part(config, frozen_step({"*embed_tokens*", "*norm*", "*k_proj*"}), GetParam(),
             "-tune_gemm");
    EXPECT_NEAR(whole.step(), part.step(), 1e-6);
    const auto want = stored(whole, kFirstMoment);
    const auto got = stored(part, kFirstMoment);
    EXPECT_EQ(got.size(), static_cast<size_t>(6 * config.layers));
    for (const auto& [name, values] : got) {
      double error = 0, size = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        error +=
            std::pow(static_cast<double>(values[i]) - static_cast<double>(want.at(name)[i]), 2);
        size += std::pow(static_cast<double>(want.at(name)[i]), 2);
      }
      EXPECT_LT(std::sqrt(error / size), 1e-5) << name;
    }
  }
}

TEST_P(Frozen, EveryLevelFollowsTheBaseline) {
  const auto follow = [](std::string_view level, std::string_view switches) {
    return FixedRun(small_config(), frozen_step({"*embed*", "*q_proj*", "*up_proj*"}), level,
                    switches)
        .steps(20);
  };
  const std::vector<double> baseline = follow("baseline", "");
  EXPECT_LT(baseline[19], 0.7 * baseline[0]);
  EXPECT_LT(largest_difference(baseline, follow(GetParam(), "-tune_gemm")), 2e-4);
  EXPECT_LT(largest_difference(baseline, follow(GetParam(), "-tune_gemm,+recompute")), 2e-4);
  EXPECT_LT(largest_difference(baseline, follow(GetParam(), "-tune_gemm,+autocast_bf16")), 0.15);
}

TEST_P(Frozen, AdaptersBeginAtTheModelAndLeaveItAsItIs) {
  for (const models::ModelConfig& config : {small_config(), small_gemma()}) {
    FixedRun plain(config, small_step(kLearningByHeart), GetParam(), "-tune_gemm"),
        adapted(config, small_step(kLearningByHeart), GetParam(), "-tune_gemm,+lora");
    const auto before = stored(adapted);
    EXPECT_NEAR(plain.step(), adapted.step(), 1e-6);
    const double second = adapted.step();
    EXPECT_LT(adapted.steps(18).back(), second);
    for (const auto& [name, values] : stored(adapted))
      EXPECT_EQ(values != before.at(name), passes::is_lora(name)) << name;
  }
}

TEST_P(Frozen, EveryLevelTrainsTheSameAdapters) {
  const auto follow = [](std::string_view level, const std::string& switches) {
    StepOptions options = small_step(kLearningByHeart);
    options.lora = {.rank = 4, .alpha = 8, .targets = {"q_proj", "v_proj", "gate_proj"}};
    return FixedRun(small_config(), options, level, "+lora" + switches).steps(20);
  };
  const std::vector<double> baseline = follow("baseline", "");
  EXPECT_LT(baseline[19], 0.8 * baseline[0]);
  EXPECT_LT(largest_difference(baseline, follow(GetParam(), ",-tune_gemm")), 2e-4);
  EXPECT_LT(largest_difference(baseline, follow(GetParam(), ",-tune_gemm,+recompute")), 2e-4);
  EXPECT_LT(largest_difference(baseline, follow(GetParam(), ",-tune_gemm,+autocast_bf16")), 0.15);
}

INSTANTIATE_TEST_SUITE_P(Levels, Frozen, every_level(), level_name<Frozen::ParamType>);

TEST(FrozenPatterns, ThatMatchNothingOrEverythingAreRefused) {
  auto backend = cpu_backend(1);
  const auto build = [&](std::vector<std::string> patterns, const char* switches = "") {
    build_step(
        {small_config(), frozen_step(std::move(patterns)), passes::Selection("baseline", switches)},
        *backend);
  };
  files::expect_error(
      [&] {
        build({"*norm*", "embed_tokens"});
      },
      ExitCode::kUsage, "such as model.embed_tokens.weight or *norm*, got");
  files::expect_error([&] { build({""}); }, ExitCode::kUsage, "[freeze]");
  files::expect_error([&] { build({"*"}); }, ExitCode::kUsage, "leave a parameter to train");
  files::expect_error([&] { build({"*norm*"}, "+lora"); }, ExitCode::kUsage, "+lora");
}

}  // namespace
}  // namespace ridge::train
