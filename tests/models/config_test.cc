// SPDX-License-Identifier: Apache-2.0
// Presets against the workshop's published sizes, and invalid configurations.
#include "models/config.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.h"

namespace ridge::models {
namespace {

TEST(Presets, HaveThePublishedNumbersOfParameters) {
  EXPECT_EQ(preset("tiny").config.parameters(), 2617600);
  EXPECT_EQ(preset("small").config.parameters(), 31977984);
  EXPECT_EQ(preset("medium").config.parameters(), 189793280);
  EXPECT_EQ(preset("large").config.parameters(), 1008748544);
}

TEST(Presets, AreValidAndNamed) {
  EXPECT_EQ(presets().size(), 4u);
  for (const Preset& each : presets()) {
    EXPECT_NO_THROW(validate(each.config));
    EXPECT_EQ(preset(each.config.name).config.hidden, each.config.hidden);
    EXPECT_EQ(each.config.head_size * each.config.heads, each.config.hidden);
  }
  EXPECT_EQ(preset("small").batch_size, 8);
  EXPECT_EQ(preset("small").sequence, 128);
  EXPECT_EQ(preset("medium").batch_size, 16);
  EXPECT_EQ(preset("medium").sequence, 512);
  try {
    preset("huge");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[preset] expected one of tiny, small, medium, large, got 'huge'");
    EXPECT_EQ(error.code(), ExitCode::kUsage);
  }
}

// An untied head has its own table.
TEST(Parameters, CountBothTablesOfAnUntiedHead) {
  ModelConfig config = preset("tiny").config;
  int64_t tied = config.parameters();
  config.tied_head = false;
  EXPECT_EQ(config.parameters(), tied + config.vocabulary * config.hidden);
}

struct Broken {
  const char* field;
  std::function<void(ModelConfig&)> change;
};

TEST(Validate, NamesTheFieldThatIsWrong) {
  constexpr int64_t kHuge = int64_t{1} << 40;
  const Broken cases[] = {
      {"vocab_size", [](ModelConfig& c) { c.vocabulary = 0; }},
      {"vocab_size", [](ModelConfig& c) { c.vocabulary = kHuge; }},
      {"hidden_size", [](ModelConfig& c) { c.hidden = -1; }},
      {"hidden_size", [](ModelConfig& c) { c.hidden = kHuge; }},
      {"num_hidden_layers", [](ModelConfig& c) { c.layers = 0; }},
      {"num_hidden_layers", [](ModelConfig& c) { c.layers = 1000000; }},
      {"num_attention_heads", [](ModelConfig& c) { c.heads = 0; }},
      {"num_key_value_heads", [](ModelConfig& c) { c.kv_heads = 0; }},
      {"num_key_value_heads", [](ModelConfig& c) { c.kv_heads = 16; }},
      {"num_key_value_heads", [](ModelConfig& c) { c.kv_heads = 3; }},
      {"head size", [](ModelConfig& c) { c.head_size = 63; }},
      {"head_dim", [](ModelConfig& c) { c.head_size = 0; }},
      {"head_dim", [](ModelConfig& c) { c.head_size = 100000; }},
      {"intermediate_size", [](ModelConfig& c) { c.feed_forward = 0; }},
      {"intermediate_size",
       [](ModelConfig& c) { c.feed_forward = std::numeric_limits<int64_t>::max(); }},
      {"rope_theta", [](ModelConfig& c) { c.rope_theta = 0; }},
      {"rope_theta",
       [](ModelConfig& c) { c.rope_theta = std::numeric_limits<double>::quiet_NaN(); }},
      {"rms_norm_eps", [](ModelConfig& c) { c.norm_eps = -1; }},
      {"rms_norm_eps",
       [](ModelConfig& c) { c.norm_eps = std::numeric_limits<double>::quiet_NaN(); }},
  };
  for (const Broken& each : cases) {
    ModelConfig config = preset("tiny").config;
    each.change(config);
    try {
      validate(config);
      ADD_FAILURE() << each.field << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
      EXPECT_NE(std::string(error.what()).find(each.field), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace ridge::models
