// SPDX-License-Identifier: Apache-2.0
// The record that a plan and a measurement of a training begin with.
#include "train/setup.h"

#include <gtest/gtest.h>

#include "train/small_run.h"

namespace ridge::train {
namespace {

TEST(BeginRecord, HasWhatTheSetupSays) {
  TrainingSetup setup;
  setup.config = small_config();
  setup.setting.model = "small";
  setup.step.batch_size = 3, setup.step.sequence = 5, setup.step.micro_batches = 2;
  setup.step.optimizer.learning_rate = 0.25;
  const record::RunRecord alone = begin_record(setup, {});
  EXPECT_EQ(alone.setting.model, "small");
  EXPECT_EQ(alone.setting.batch_size, 3);
  EXPECT_EQ(alone.setting.sequence, 5);
  EXPECT_EQ(alone.setting.micro_batches, 2);
  EXPECT_EQ(alone.setting.ranks, 0);
  EXPECT_EQ(alone.learning_rate, 0.25);
  EXPECT_EQ(alone.parameters, setup.config.parameters());
  const record::Architecture& shape = alone.architecture;
  EXPECT_EQ(shape.vocabulary, setup.config.vocabulary);
  EXPECT_EQ(shape.model, setup.config.hidden);
  EXPECT_EQ(shape.layers, setup.config.layers);
  EXPECT_EQ(shape.heads, setup.config.heads);
  EXPECT_EQ(shape.kv_heads, setup.config.kv_heads);
  EXPECT_EQ(shape.feed_forward, setup.config.feed_forward);
  EXPECT_EQ(shape.context, setup.config.context);
  EXPECT_EQ(shape.rope_theta, setup.config.rope_theta);
  EXPECT_EQ(shape.norm_epsilon, setup.config.norm_eps);
  setup.step.shard.ranks = 4;
  EXPECT_EQ(begin_record(setup, {{}, {}}).setting.ranks, 4);
  EXPECT_EQ(begin_record(setup, {{}, {}}).passes.size(), 2u);
}

}  // namespace
}  // namespace ridge::train
