// SPDX-License-Identifier: Apache-2.0
// The gradient of whole models against finite differences of their loss, in double precision: along
// one random direction for each parameter, which has a part of every element.
#include <gtest/gtest.h>

#include "models/forward_graph.h"
#include "ops/reference_run.h"
#include "ops/registry.h"
#include "passes/differentiate.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

struct Form {
  std::string name;
  models::ModelConfig config;
  std::string switches;
};

std::vector<Form> forms() {
  models::ModelConfig stored_sum = small_gemma(), biased = small_config();
  stored_sum.norm_offset = 0;
  biased.qkv_bias = biased.output_bias = biased.mlp_bias = true;
  biased.tied_head = false;
  return {{"llama", small_config(), ""},
          {"llama_with_biases", biased, ""},
          {"gemma", small_gemma(), ""},
          {"gemma_of_gguf", stored_sum, ""},
          {"llama_adapters", small_config(), "+lora"},
          {"gemma_adapters", small_gemma(), "+lora"}};
}

constexpr int64_t kBatch = 2, kSequence = 12;

class ModelGradient : public testing::TestWithParam<Form> {
 protected:
  // The model's operands: lively weights, adapters whose B is not 0, and rows of random ids.
  ops::NamedTensors operands(const Graph& graph) const {
    const Weights weights = lively_weights(GetParam().config);
    Random random(11);
    ops::NamedTensors named;
    for (const Value& value : graph.values) {
      if (value.producer != kNoNode) continue;
      Tensor64 tensor{value.type, {}};
      const auto size = static_cast<size_t>(value.type.shape.elements());
      if (value.storage == Storage::kInput) {
        for (size_t i = 0; i < size; ++i)
          tensor.data.push_back(value.name == "positions" ? static_cast<double>(i % kSequence)
                                                          : static_cast<double>(random.below(64)));
      } else {
        std::vector<float> data(size);
        if (passes::is_lora(value.name))
          random.fill_normal(data, 0.3f);
        else
          data = weights.at(value.name);
        tensor.data.assign(data.begin(), data.end());
      }
      named[value.name] = std::move(tensor);
    }
    return named;
  }
};

TEST_P(ModelGradient, IsTheSlopeOfTheLoss) {
  const auto& [name, config, switches] = GetParam();
  auto backend = cpu_backend(1);
  models::ForwardGraph built =
      models::build_training_graph(config, ops::table(), kBatch, kSequence);
  passes::PassContext context{ops::table(), *backend, built.load};
  context.lora = {.rank = 3, .alpha = 5, .targets = {"q_proj", "v_proj", "down_proj"}};
  const Graph forward =
      passes::run_stage(passes::Stage::kForward, built.graph,
                        passes::Selection("baseline", switches), context, nullptr);
  std::vector<ValueId> wanted;
  for (size_t i = 0; i < forward.values.size(); ++i) {
    const Value& value = forward.values[i];
    if (value.storage == Storage::kParameter && value.producer == kNoNode && !value.frozen)
      wanted.push_back(static_cast<ValueId>(i));
  }
  ops::NamedTensors named = operands(forward);
  Graph graph = forward;
  const std::vector<ValueId> gradients =
      passes::differentiate(graph, ops::table(), graph.outputs[0], wanted);
  const ops::ReferenceRun run(graph, named);
  Random random(5);
  for (size_t w = 0; w < wanted.size(); ++w) {
    const std::string& parameter = forward.value(wanted[w]).name;
    std::vector<double>& x = named.at(parameter).data;
    const std::vector<double> at = x;
    std::vector<float> direction(x.size());
    random.fill_normal(direction, 1);
    const auto loss_at = [&](double step) {
      for (size_t i = 0; i < x.size(); ++i) x[i] = at[i] + step * static_cast<double>(direction[i]);
      const double loss = ops::ReferenceRun(forward, named)[forward.outputs[0]][0];
      x = at;
      return loss;
    };
    const auto central = [&](double h) { return (loss_at(h) - loss_at(-h)) / (2 * h); };
    // Richardson's extrapolation removes the error of the second order.
    const double h = 1e-3, slope = (4 * central(h / 2) - central(h)) / 3;
    double want = 0, size = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      want += run[gradients[w]][i] * static_cast<double>(direction[i]);
      size += run[gradients[w]][i] * run[gradients[w]][i];
    }
    EXPECT_GT(size, 0) << parameter;
    EXPECT_NEAR(want, slope, 1e-6 * std::max(std::sqrt(size), 1e-2)) << parameter;
  }
  EXPECT_GE(wanted.size(), 12u);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelGradient, testing::ValuesIn(forms()), [](const auto& each) {
  return each.param.name;
});

// All levels compute the same training of Gemma 3, also in bf16 and with recomputation.
TEST(GemmaLevels, FollowTheBaseline) {
  const auto follow = [](std::string_view level, std::string_view switches) {
    return FixedRun(small_gemma(), small_step(3e-3), level, switches).steps(20);
  };
  const std::vector<double> baseline = follow("baseline", "");
  EXPECT_LT(baseline[19], 0.5 * baseline[0]);
  for (const passes::Level& level : passes::levels()) {
    EXPECT_LT(largest_difference(baseline, follow(level.name, "")), 2e-4) << level.name;
    EXPECT_LT(largest_difference(baseline, follow(level.name, "+recompute")), 2e-4) << level.name;
    EXPECT_LT(largest_difference(baseline, follow(level.name, "+autocast_bf16")), 0.15)
        << level.name;
  }
}

}  // namespace
}  // namespace ridge::train
