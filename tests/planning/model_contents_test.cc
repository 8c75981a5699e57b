// SPDX-License-Identifier: Apache-2.0
// The contents of a model file as ridge inspect tells them: contexts, memory, counts of weights.
#include "planning/model_contents.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "files/scratch.h"

namespace ridge::planning {
namespace {

std::vector<int64_t> contexts(const record::ModelContents& contents) {
  std::vector<int64_t> list;
  for (const auto& each : contents.memory) list.push_back(each.context);
  return list;
}

TEST(ModelContents, HasTheGivenContextsOrUsualOnes) {
  using List = std::vector<int64_t>;
  const auto small = models::ModelFile::open(test_data("models/llama_fp32"));
  EXPECT_EQ(contexts(model_contents(small, {})), List{256});
  EXPECT_EQ(contexts(model_contents(small, {.contexts = "7,256,64"})), (List{7, 256, 64}));
  EXPECT_THROW(model_contents(small, {.contexts = "7,257"}), Error);
  EXPECT_THROW(model_contents(small, {.contexts = "0"}), Error);
  // The model's own context stands once.
  const auto larger = models::ModelFile::open(test_data("models/gemma3_bf16"));
  EXPECT_EQ(contexts(model_contents(larger, {})), List{512});
}

TEST(ModelContents, DoublesTheContextUpToTheModels) {
  const files::ScratchFolder folder;
  std::filesystem::copy(test_data("models/llama_fp32"), folder / "model");
  std::string config = files::contents(test_data("models/llama_fp32/config.json"));
  const std::string key = "\"max_position_embeddings\": ";
  config.replace(config.find(key + "256"), key.size() + 3, key + "1500");
  files::write_plain(folder / "model/config.json", config);
  const auto file = models::ModelFile::open(folder / "model");
  EXPECT_EQ(contexts(model_contents(file, {})), (std::vector<int64_t>{512, 1024, 1500}));
}

// Keys and values of each layer, KV head and position.
TEST(ModelContents, CountsTheBytesOfACache) {
  const auto file = models::ModelFile::open(test_data("models/llama_fp32"));
  const models::ModelConfig& c = file.config();
  const int64_t position = 2 * c.layers * c.kv_heads * c.head_size;
  const record::ModelContents fp32 = model_contents(file, {.contexts = "64"});
  EXPECT_EQ(fp32.memory[0].cache_bytes, 64 * position * 4);
  const record::ModelContents bf16 =
      model_contents(file, {.contexts = "64", .cache_dtype = DType::kBF16});
  EXPECT_EQ(bf16.memory[0].cache_bytes, 64 * position * 2);
  EXPECT_EQ(bf16.cache_dtype, "bf16");
}

TEST(ModelContents, CountsTheWeightsThatTheModelReads) {
  const auto file = models::ModelFile::open(test_data("models/llama_fp32"));
  const record::ModelContents got = model_contents(file, {});
  EXPECT_EQ(got.parameters, file.config().parameters());
  EXPECT_EQ(got.weight_bytes, 4 * got.parameters);
  EXPECT_EQ(got.bits_per_weight(), 32);
  EXPECT_TRUE(got.unread.empty());
  ASSERT_EQ(got.types.size(), 1u);
  EXPECT_EQ(got.types.begin()->second.elements, got.parameters);
}

}  // namespace
}  // namespace ridge::planning
