// SPDX-License-Identifier: Apache-2.0
// The choice of attention: kept by call and machine, ties to flash, measured once.
#include "bench/attention_choice.h"

#include <gtest/gtest.h>

#include "files/own_cache.h"
#include "files/scratch.h"
#include "serve/real_model.h"

namespace ridge::bench {
namespace {

AttentionCall call(int64_t length) { return {false, true, 1, 4, 2, 64, length, {}}; }

TEST(AttentionChoice, KeysShareLengthsUpToAPowerOfTwo) {
  EXPECT_EQ(call(100).key(), "forward+backward b1 h4 k2 e64 t128 fp32");
  EXPECT_EQ(call(128).key(), call(65).key());
  EXPECT_NE(call(128).key(), call(129).key());
  AttentionCall decode = call(16);
  decode.decodes = true;
  EXPECT_EQ(decode.key(), "decode b1 h4 k2 e64 c16 fp32");
}

TEST(AttentionChoice, KeepsTheWinnerForItsMachine) {
  files::ScratchFolder folder;
  const std::string path = folder / "attention.json";
  {
    AttentionChoices choices(path, "here");
    choices.keep(call(64), 100, 90);
    choices.keep(call(128), 100, 98);  // within the noise
    choices.keep(call(256), 50, 90);
  }
  const record::TunedChoices list = backends::list_tuning(path);
  ASSERT_EQ(list.choices.size(), 3u);
  EXPECT_EQ(list.machine, "here");
  EXPECT_DOUBLE_EQ(list.choices[2].gain(), 100.0 / 90);  // t64 comes last by key
  EXPECT_EQ(list.choices[2].choice, "standard");
  AttentionChoices again(path, "here");
  EXPECT_FALSE(again.prefers_flash(call(64), serve::cpu_backend()));
  EXPECT_TRUE(again.prefers_flash(call(128), serve::cpu_backend()));
  EXPECT_TRUE(again.prefers_flash(call(256), serve::cpu_backend()));
}

TEST(AttentionChoice, MeasuresWhatItDoesNotKnow) {
  files::ScratchFolder folder;
  const std::string path = folder / "attention.json";
  for (bool decodes : {false, true}) {
    AttentionCall one = call(32);
    one.decodes = decodes;
    bool prefers = false;
    {
      AttentionChoices choices(path, "here");
      prefers = choices.prefers_flash(one, serve::cpu_backend());
    }
    const record::TunedChoices list = backends::list_tuning(path);
    EXPECT_EQ(list.choices.size(), decodes ? 2u : 1u);
    AttentionChoices again(path, "here");
    EXPECT_EQ(again.prefers_flash(one, serve::cpu_backend()), prefers);
  }
}

TEST(AttentionChoice, IsOneMoreSwitch) {
  const models::ModelConfig& config = models::preset("tiny").config;
  const auto switches = [&](const std::string& attention, const std::string& before) {
    serve::InferenceOptions options;
    options.level.level = "compiled";
    options.level.attention = attention;
    options.level.switches = before;
    return with_attention(options, config, {}).level.switches;
  };
  EXPECT_EQ(switches("level", "-fuse_rope"), "-fuse_rope");
  EXPECT_EQ(switches("flash", "-fuse_rope"), "-fuse_rope,+flash_attention");
  EXPECT_EQ(switches("standard", ""), "-flash_attention");
  EXPECT_THROW(switches("fast", ""), Error);
}

// "auto" times both forms once and keeps the winner in the cache.
TEST(AttentionChoice, MeasuresWhereItIsToChoose) {
  const files::OwnCache cache;
  models::ModelConfig config = models::preset("tiny").config;
  serve::InferenceOptions options;
  options.level.level = "compiled";
  options.level.attention = "auto";
  options.machine.device = "cpu";
  const std::string first = with_attention(options, config, {.positions = 32}).level.switches;
  EXPECT_TRUE(first == "+flash_attention" || first == "-flash_attention") << first;
  const record::TunedChoices list =
      backends::list_tuning(backends::tuned_file(backends::kAttentionTuning));
  ASSERT_EQ(list.choices.size(), 1u);
  EXPECT_EQ(list.choices[0].choice == "flash", first == "+flash_attention");
  EXPECT_EQ(with_attention(options, config, {.positions = 32}).level.switches, first);
}

}  // namespace
}  // namespace ridge::bench
