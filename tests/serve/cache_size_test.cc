// SPDX-License-Identifier: Apache-2.0
// The size of KV caches: window layers hold only their window, for any context. Also rewinding
// within the positions that the cache keeps.
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "serve/real_model.h"
#include "serve/session_choice.h"

namespace ridge::serve {
namespace {

// The positions that a session's caches can hold, by layer.
std::vector<int64_t> rings(const models::ModelFile& file, int64_t capacity, int64_t chunk) {
  SessionOptions options = at_level("compiled", capacity);
  options.chunk = chunk;
  Session session(file, options, cpu_backend());
  std::vector<SessionRun> runs;
  session.runner().observe(&runs);
  std::vector<int32_t> ids{1, 2, 3};
  last_logits(session, ids);
  const Graph& graph = runs.at(0).bucket->program().graph(0).graph();
  std::vector<int64_t> rings;
  for (int64_t layer = 0; layer < file.config().layers; ++layer) {
    ValueId keys = graph.find("cache." + std::to_string(layer) + ".keys");
    rings.push_back(graph.shape(keys)[0] * graph.shape(keys)[1]);
  }
  return rings;
}

TEST(CacheSize, WindowLayersKeepTheirWindow) {
  models::ModelFile file = models::ModelFile::open(data_folder() + "gemma3_bf16");
  const models::ModelConfig& config = file.config();
  constexpr int64_t kChunk = 4;
  std::set<bool> kinds;
  for (int64_t capacity : {64, 128}) {
    std::vector<int64_t> held = rings(file, capacity, kChunk);
    int64_t sum = 0;
    for (int64_t layer = 0; layer < config.layers; ++layer) {
      kinds.insert(config.is_window(layer));
      int64_t expected = config.is_window(layer) ? config.window + kChunk - 1 : capacity;
      EXPECT_EQ(held[static_cast<size_t>(layer)], expected) << "layer " << layer;
      sum += expected * config.kv_heads * config.head_size * 8;
    }
    EXPECT_EQ(models::cache_bytes(
                  config, models::cache_shape(
                              {.capacity = capacity, .window = config.window, .chunk = kChunk})),
              sum);
  }
  EXPECT_EQ(kinds.size(), 2u) << "the model has window and full layers";
}

// Where sequences share the cache, it has as many positions as its bytes hold, in whole blocks.
TEST(CacheSize, FollowsFromItsBytes) {
  models::ModelConfig config = models::ModelFile::open(data_folder() + "gemma3_bf16").config();
  SessionOptions options = at_level("compiled", 4 * models::kBlockTokens);
  options.slots = 3;
  options.prefix_caching = true;
  const auto bytes_of = [&](int64_t blocks) {
    SessionOptions shared = options;
    shared.kv_capacity_tokens = blocks * models::kBlockTokens;
    return models::cache_bytes(config, cache_of(shared, config));
  };
  for (int64_t blocks : {4, 5, 9}) {
    for (int64_t bytes : {bytes_of(blocks), bytes_of(blocks + 1) - 1})
      EXPECT_EQ(kv_capacity_tokens(bytes, options, config), blocks * models::kBlockTokens) << bytes;
  }
  EXPECT_THROW(kv_capacity_tokens(bytes_of(4) - 1, options, config), Error);
  // More bytes make rings no longer.
  config.is_window_layer.assign(static_cast<size_t>(config.layers), true);
  EXPECT_EQ(kv_capacity_tokens(2 * bytes_of(4), options, config), 4 * models::kBlockTokens);
}

TEST(CacheSize, ATokenSeesItsWindow) {
  models::ModelFile file = models::ModelFile::open(data_folder() + "gemma3_bf16");
  const models::ModelConfig& config = file.config();
  int64_t full = 0;
  for (int64_t layer = 0; layer < config.layers; ++layer) full += config.is_window(layer) ? 0 : 1;
  int64_t row = config.kv_heads * config.head_size * 8;
  EXPECT_EQ(models::seen_bytes(config, config.window, DType::kF32),
            config.layers * config.window * row);
  EXPECT_EQ(models::seen_bytes(config, config.window + 100, DType::kF32),
            (config.layers * config.window + full * 100) * row);
}

TEST(CacheSize, GoingBackGivesTheSameAgain) {
  for (const char* name : {"llama_fp32", "gemma3_bf16", "qwen2_fp32", "qwen3_bf16"}) {
    models::ModelFile file = models::ModelFile::open(data_folder() + name);
    SessionOptions options = at_level("compiled", 96);
    options.chunk = 8;
    Session session(file, options, cpu_backend());
    std::vector<int32_t> ids(40, 7);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>((i * 37) % 150);
    Prompt prompt{0, ids, {}};
    std::vector<int32_t> tokens = session.start({&prompt, 1});
    int64_t slot = 0;
    // After a rewind, the same prompt must give the same tokens and logits again.
    session.step({&slot, 1}, tokens);
    int32_t second = tokens[0];
    session.step({&slot, 1}, tokens);
    session.rewind(0, static_cast<int64_t>(ids.size()) + 1);
    EXPECT_EQ(session.room(0), 96 - static_cast<int64_t>(ids.size()) - 1);
    std::vector<float> want = last_logits(session, ids);
    EXPECT_EQ(session.start({&prompt, 1}).size(), 1u);
    session.step({&slot, 1}, tokens);
    EXPECT_EQ(tokens[0], second);
    EXPECT_LE(largest_difference(last_logits(session, ids), want), 0.0);
  }
}

TEST(OpenModel, HasThePassesOfItsLevel) {
  InferenceOptions options;
  options.machine.device = "cpu";
  for (const auto& [level, has] : {std::pair{"baseline", false}, {"compiled", true}}) {
    options.level.level = level;
    const auto model =
        open_model(models::ModelFile::open(data_folder() + "gemma3_bf16"), options, {});
    EXPECT_EQ(model->session->options().selection.has("flash_attention"), has) << level;
  }
}

}  // namespace
}  // namespace ridge::serve
