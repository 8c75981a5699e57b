// SPDX-License-Identifier: Apache-2.0
// One whole training step on the CPU against the same graph in double, at each level: the loss and,
// through the first moments, the gradient of every parameter.
#include <gtest/gtest.h>

#include "base/bf16.h"
#include "ops/reference_run.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

Tensor64 read(runtime::Store& store, const std::string& name) {
  Tensor64 tensor{store.type(name), {}};
  size_t n = static_cast<size_t>(tensor.type.shape.elements());
  if (tensor.type.dtype == DType::kBF16) {
    std::vector<uint16_t> bits(n);
    store.read(name, bits.data(), static_cast<int64_t>(n * 2));
    for (uint16_t each : bits) tensor.data.push_back(bf16_to_float(each));
  } else if (tensor.type.dtype == DType::kI32) {
    std::vector<int32_t> ids(n);
    store.read(name, ids.data(), static_cast<int64_t>(n * 4));
    tensor.data.assign(ids.begin(), ids.end());
  } else {
    std::vector<float> data = store.read_floats(name);
    tensor.data.assign(data.begin(), data.end());
  }
  return tensor;
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (double each : x) sum += each * each;
  return std::sqrt(sum);
}

struct StepErrors {
  double loss = 0;                          // absolute
  std::map<std::string, double> gradients;  // |difference| / |gradient|, per parameter
};

StepErrors errors_of_a_step(const models::ModelConfig& config,
                            std::string_view level,
                            std::string_view switches,
                            int steps_before = 0) {
  FixedRun run(config, small_step(kLearningByHeart), level, switches);
  runtime::Store& store = run.store();
  run.steps(steps_before);
  ops::NamedTensors before;
  for (const std::string& name : store.names()) before[name] = read(store, name);
  double loss = run.step();
  for (const char* input : {"ids", "positions", "labels", "learning_rate", "step"})
    before[input] = read(store, input);
  const Graph& graph = run.program().graph(0).graph();
  ops::ReferenceRun want(graph, before);
  StepErrors errors;
  errors.loss = std::abs(loss - want[graph.outputs[0]][0]);
  ops::NamedTensors after = want.stored();
  for (const auto& [name, tensor] : after) {
    if (!name.ends_with(".adamw_m")) continue;
    std::vector<double> got = read(store, name).data;
    EXPECT_GT(norm(tensor.data), 0) << name;
    for (size_t i = 0; i < got.size(); ++i) got[i] -= tensor.data[i];
    errors.gradients[name] = norm(got) / norm(tensor.data);
  }
  return errors;
}

class StepReference : public testing::TestWithParam<std::string> {};

TEST_P(StepReference, HasTheLossAndTheGradientsOfTheGraphInDouble) {
  StepErrors errors = errors_of_a_step(small_config(), GetParam(), "");
  EXPECT_LT(errors.loss, 2e-6);
  for (const auto& [name, error] : errors.gradients) EXPECT_LT(error, 5e-6) << name;
  EXPECT_GE(errors.gradients.size(), 12u);
}

TEST_P(StepReference, OfGemmaHasThemToo) {
  StepErrors errors = errors_of_a_step(small_gemma(), GetParam(), "");
  EXPECT_LT(errors.loss, 2e-6);
  for (const auto& [name, error] : errors.gradients) EXPECT_LT(error, 1e-5) << name;
  EXPECT_GE(errors.gradients.size(), 3u * 10 + 2);
}

// The gradients of adapters whose B is not 0 any more: at first, A has none.
TEST_P(StepReference, OfAdaptersHasThemToo) {
  for (const models::ModelConfig& config : {small_config(), small_gemma()}) {
    StepErrors errors = errors_of_a_step(config, GetParam(), "+lora", 3);
    EXPECT_LT(errors.loss, 2e-6);
    for (const auto& [name, error] : errors.gradients) EXPECT_LT(error, 1e-5) << name;
    EXPECT_EQ(errors.gradients.size(), static_cast<size_t>(config.layers * 2 * 2));
  }
}

TEST_P(StepReference, Bf16MovesNoGradientByATenth) {
  StepErrors errors = errors_of_a_step(small_config(), GetParam(), "+autocast_bf16");
  EXPECT_LT(errors.loss, 0.02);
  for (const auto& [name, error] : errors.gradients) EXPECT_LT(error, 0.1) << name;
}

INSTANTIATE_TEST_SUITE_P(Levels,
                         StepReference,
                         every_level(),
                         level_name<StepReference::ParamType>);

}  // namespace
}  // namespace ridge::train
