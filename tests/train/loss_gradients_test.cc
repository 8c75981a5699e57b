// SPDX-License-Identifier: Apache-2.0
// Gradients that are read do not train.
#include "train/loss_gradients.h"

#include <gtest/gtest.h>

#include "train/small_run.h"
#include "train/synthetic_data.h"

namespace ridge::train {
namespace {

Trainer made(backends::Backend& backend, bool separates) {
  StepOptions options = small_step(kLearningByHeart);
  options.separates_update = separates;
  return Trainer({small_config(), options, passes::Selection("compiled", "")}, backend);
}

TEST(LossGradients, LeaveTheTrainingAsItIs) {
  const auto backend = cpu_backend(1);
  Trainer with = made(*backend, true), without = made(*backend, true);
  SyntheticData data = synthetic_data(with);
  const std::vector<Batch> first = {data.next(2)}, second = {data.next(2)};
  with.step(first), without.step(first);
  const LossGradients found = loss_gradients(with, second);
  EXPECT_EQ(with.steps(), 1);
  EXPECT_EQ(found.loss, loss_gradients(with, second).loss);
  const double loss = with.step(second).loss;
  EXPECT_EQ(found.loss, loss);
  EXPECT_EQ(loss, without.step(second).loss);
  EXPECT_EQ(with.step(first).loss, without.step(first).loss);
}

// Along its gradient, a loss falls as fast as the gradient's square.
TEST(LossGradients, AreTheSlope) {
  const auto backend = cpu_backend(1);
  Trainer trainer = made(*backend, true);
  SyntheticData data = synthetic_data(trainer);
  const std::vector<Batch> batch = {data.next(2)};
  const LossGradients found = loss_gradients(trainer, batch);
  const std::vector<SavedTensor> start = saved_tensors(trainer);
  ASSERT_EQ(found.tensors.size(), start.size());
  double squares = 0;
  for (const SavedTensor& each : found.tensors)
    for (const float x : each.values) squares += static_cast<double>(x) * x;
  const double step = 1e-2 / squares;  // changes the loss by about a hundredth each way
  auto loss_at = [&](double way) {
    size_t i = 0;
    restore_tensors(trainer, [&](const std::string& name, const Shape&) {
      while (start[i].name != name) i = (i + 1) % start.size();
      std::vector<float> values = start[i].values;
      for (size_t k = 0; k < values.size(); ++k)
        values[k] += static_cast<float>(way * step * found.tensors[i].values[k]);
      return values;
    });
    return loss_gradients(trainer, batch).loss;
  };
  EXPECT_NEAR((loss_at(1) - loss_at(-1)) / (2 * step) / squares, 1, 0.01);
}

TEST(LossGradients, NeedAnUpdateOfItsOwn) {
  const auto backend = cpu_backend(1);
  Trainer trainer = made(*backend, false);
  SyntheticData data = synthetic_data(trainer);
  EXPECT_THROW(loss_gradients(trainer, std::vector<Batch>{data.next(2)}), InternalError);
}

}  // namespace
}  // namespace ridge::train
