// SPDX-License-Identifier: Apache-2.0
// The published workshop's weights and batches, against the numbers of its published recipe.
#include "train/synthetic_data.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "models/config.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

TEST(SyntheticWeights, AreThoseOfThePublishedRun) {
  const models::ModelConfig& config = models::preset("small").config;
  int64_t parameters = 0;
  std::vector<float> table;
  for (const InitialWeight& each : initial_weights(config, kSyntheticSeed)) {
    std::vector<float> data = each.draw();
    parameters += static_cast<int64_t>(data.size());
    if (each.name == "model.embed_tokens.weight") table = std::move(data);
  }
  EXPECT_EQ(parameters, 31977984);
  ASSERT_EQ(table.size(), 512000u);
  const double first[] = {0.00186798, 0.02709378, 0.01546317, -0.03186454};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(table[i], first[i], 5e-9);
  EXPECT_NEAR(std::accumulate(table.begin(), table.end(), 0.0), -21.032001, 5e-6);
}

TEST(SyntheticWeights, EachIsDrawnOnceInItsShape) {
  models::ModelConfig config = small_config();
  config.tied_head = false;
  std::map<std::string, size_t> sizes;
  for (const InitialWeight& each : initial_weights(config, 1))
    EXPECT_TRUE(sizes.emplace(each.name, each.draw().size()).second) << each.name << " comes twice";
  EXPECT_EQ(sizes.at("lm_head.weight"), 64u * 32);
  EXPECT_EQ(sizes.at("model.layers.1.self_attn.k_proj.weight"), 16u * 32);
  EXPECT_EQ(sizes.at("model.layers.0.mlp.down_proj.weight"), 48u * 32);
  EXPECT_EQ(sizes.at("model.norm.weight"), 32u);
  size_t all = 0;
  for (const auto& [name, size] : sizes) all += size;
  EXPECT_EQ(static_cast<int64_t>(all), config.parameters());
}

TEST(SyntheticWeights, BiasesAreZero) {
  models::ModelConfig config = small_config();
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  size_t biases = 0;
  for (const InitialWeight& each : initial_weights(config, 1)) {
    if (!each.name.ends_with(".bias")) continue;
    const std::vector<float> data = each.draw();
    biases += data.size();
    for (float value : data) ASSERT_EQ(value, 0) << each.name;
  }
  EXPECT_GT(biases, 0u);
}

TEST(SyntheticBatches, AreThoseOfThePublishedRun) {
  SyntheticData data(1000, 128, kSyntheticSeed);
  const int32_t row[] = {103, 436, 861, 271, 107, 72};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(data.row(0)[i], row[i]);
  EXPECT_EQ(data.row(0).size(), 129u);
  EXPECT_EQ(data.next(8).rows, (std::vector<uint32_t>{342, 748, 182, 142, 946, 47, 515, 136}));
}

TEST(SyntheticBatches, ShiftLabelsTwiceAndLeaveTheLastOut) {
  SyntheticData data(64, 5, 9);
  Batch batch = data.next(3);
  for (size_t r = 0; r < 3; ++r) {
    const std::vector<int32_t>& row = data.row(batch.rows[r]);
    for (size_t t = 0; t < 5; ++t) {
      EXPECT_EQ(batch.ids[r * 5 + t], row[t]);
      EXPECT_EQ(batch.positions[r * 5 + t], static_cast<int32_t>(t));
      EXPECT_EQ(batch.labels[r * 5 + t], t < 4 ? row[t + 2] : -1);
    }
  }
}

TEST(SyntheticBatches, AreFreshEachTimeAndWithinTheVocabulary) {
  SyntheticData data(7, 4, 2);
  Batch first = data.next(1000), second = data.next(1000);
  EXPECT_NE(first.rows, second.rows);
  EXPECT_EQ(std::set<uint32_t>(first.rows.begin(), first.rows.end()).size(), 1000u);
  for (int32_t id : first.ids) EXPECT_TRUE(id >= 1 && id < 7) << id;
}

TEST(SyntheticBatches, RefuseWhatTheyCannotDraw) {
  EXPECT_THROW(SyntheticData(1, 4, 2), Error);
  EXPECT_THROW(SyntheticData(0, 4, 2), Error);
  EXPECT_THROW(SyntheticData(7, 0, 2), Error);
  SyntheticData data(7, 4, 2);
  EXPECT_THROW(data.next(1001), Error);
}

}  // namespace
}  // namespace ridge::train
