// SPDX-License-Identifier: Apache-2.0
// The loss and the gradient of small models of each family against those that transformers computes
// in double. It runs by the ops' references, so that a difference comes from the model or from a
// gradient, and not from a kernel. And the levels of training against each other.
#include <gtest/gtest.h>

#include <cmath>

#include "models/forward_graph.h"
#include "models/transformers_model.h"
#include "ops/registry.h"
#include "passes/differentiate.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

// transformers rounds its table of rotations to fp32.
constexpr double kRounded = 2e-6;

class TransformersGradient : public testing::TestWithParam<const char*> {};

TEST_P(TransformersGradient, IsThatOfEachParameter) {
  models::TransformersModel model(GetParam());
  const nlohmann::json& rows = model.expected["ids"];
  const auto t = static_cast<int64_t>(rows[0].size());
  models::ForwardGraph built = models::build_training_graph(model.config, ops::table(), 2, t);
  const auto backend = cpu_backend(1);
  passes::PassContext context{ops::table(), *backend, built.load};
  Graph graph = passes::run_stage(passes::Stage::kForward, built.graph,
                                  passes::Selection("baseline", ""), context, nullptr);
  std::vector<ValueId> wanted;
  for (size_t i = 0; i < graph.values.size(); ++i)
    if (graph.values[i].storage == Storage::kParameter && !graph.values[i].name.empty())
      wanted.push_back(static_cast<ValueId>(i));
  const std::vector<ValueId> gradients =
      passes::differentiate(graph, ops::table(), graph.outputs[0], wanted);
  ops::NamedTensors named = model.weights;
  for (const char* name : {"ids", "positions", "labels"})
    named[name] = {{DType::kI32, {2 * t}}, {}};
  for (const nlohmann::json& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      named["ids"].data.push_back(row[i].get<double>());
      named["positions"].data.push_back(static_cast<double>(i));
      named["labels"].data.push_back(i + 1 < row.size() ? row[i + 1].get<double>() : -1);
    }
  const ops::ReferenceRun run(graph, named);
  EXPECT_NEAR(run[graph.outputs[0]][0], model.expected["loss"].get<double>(), kRounded);
  const nlohmann::json& expected = model.expected["gradients"];
  EXPECT_EQ(wanted.size(), expected.size());
  for (size_t w = 0; w < wanted.size(); ++w) {
    const std::string& name = graph.value(wanted[w]).name;
    const std::vector<double>& found = run[gradients[w]];
    const auto said = expected.at(name).get<std::vector<double>>();  // the norm, then elements
    double squares = 0;
    for (double x : found) squares += x * x;
    EXPECT_NEAR(std::sqrt(squares), said[0], kRounded * std::max(said[0], 1e-2)) << name;
    for (size_t i = 1; i < said.size(); ++i)
      EXPECT_NEAR(found[i - 1], said[i], kRounded * std::max(said[0], 1e-2)) << name << " " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models,
                         TransformersGradient,
                         testing::Values("gemma3_cap_fp32",
                                         "mistral_fp32",
                                         "qwen2_fp32",
                                         "qwen2_window_fp32",
                                         "qwen3_bf16"),
                         [](const auto& each) { return std::string(each.param); });

models::ModelConfig small_qwen(models::Family family) {
  models::ModelConfig config = small_config();
  config.family = family;
  config.rope_interleaved = false;
  config.qkv_bias = family == models::Family::kQwen2;
  return config;
}

// Biases of q, k and v, and norms of heads, are trained alike at all levels.
TEST(QwenLevels, FollowTheBaseline) {
  for (models::Family family : {models::Family::kQwen2, models::Family::kQwen3}) {
    const auto follow = [&](std::string_view level, std::string_view switches) {
      return FixedRun(small_qwen(family), small_step(kLearningByHeart), level, switches).steps(20);
    };
    const std::vector<double> baseline = follow("baseline", "");
    EXPECT_LT(baseline[19], 0.5 * baseline[0]);
    for (const passes::Level& level : passes::levels())
      for (const auto& [switches, most] :
           {std::pair{"", 2e-4}, {"+recompute", 2e-4}, {"+autocast_bf16", 0.15}})
        EXPECT_LT(largest_difference(baseline, follow(level.name, switches)), most)
            << models::facts(family).name << " " << level.name << " " << switches;
  }
}

}  // namespace
}  // namespace ridge::train
