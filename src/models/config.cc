// SPDX-License-Identifier: Apache-2.0
// Presets and validation of model configurations.
#include "models/config.h"

#include "base/error.h"

namespace ridge::models {
namespace {

// Beyond these no product of extents below can overflow, and no model comes near.
constexpr int64_t kMostExtent = int64_t{1} << 24;
constexpr int64_t kMostHeadSize = 4096;

void expect_between(const char* field, int64_t value, int64_t most) {
  if (value < 1 || value > most)
    throw usage_error("[config] expected {} between 1 and {}, got {}", field, most, value);
}

Preset make_preset(std::string name,
                   int64_t hidden,
                   int64_t layers,
                   int64_t feed_forward,
                   int64_t batch,
                   int64_t sequence) {
  ModelConfig config;
  config.name = std::move(name);
  config.vocabulary = 1000;
  config.hidden = hidden;
  config.layers = layers;
  config.heads = 8;
  config.kv_heads = 4;
  config.head_size = hidden / 8;
  config.feed_forward = feed_forward;
  config.context = sequence;
  config.rope_interleaved = true;
  return {config, batch, sequence};
}

}  // namespace

int64_t ModelConfig::parameters() const {
  int64_t attention = hidden * head_size * (2 * heads + 2 * kv_heads);
  int64_t mlp = 3 * hidden * feed_forward;
  if (attention_bias) attention += (heads + 2 * kv_heads) * head_size + hidden;
  if (mlp_bias) mlp += 2 * feed_forward + hidden;
  // Gemma 3 norms the input and the output of both halves, and the heads of q and k.
  int64_t norms = family == Family::kGemma3 ? 4 * hidden + 2 * head_size : 2 * hidden;
  int64_t tables = vocabulary * hidden * (tied_head ? 1 : 2);
  return layers * (attention + mlp + norms) + hidden + tables;
}

void validate(const ModelConfig& c) {
  expect_between("vocab_size", c.vocabulary, kMostExtent);
  expect_between("hidden_size", c.hidden, kMostExtent);
  expect_between("num_hidden_layers", c.layers, kMostLayers);
  expect_between("num_attention_heads", c.heads, kMostExtent);
  expect_between("num_key_value_heads", c.kv_heads, c.heads);
  expect_between("head_dim", c.head_size, kMostHeadSize);
  expect_between("intermediate_size", c.feed_forward, kMostExtent);
  if (c.heads % c.kv_heads != 0)
    throw usage_error(
        "[config] expected num_attention_heads to be a multiple of num_key_value_heads, got {} and "
        "{}",
        c.heads, c.kv_heads);
  if (c.head_size % 2 != 0)
    throw usage_error("[rope] expected an even head size, got {}", c.head_size);
  if (!(c.rope_theta > 0))
    throw usage_error("[config] expected rope_theta > 0, got {}", c.rope_theta);
  if (!c.is_window_layer.empty() && static_cast<int64_t>(c.is_window_layer.size()) != c.layers)
    throw usage_error("[config] expected {} layer_types, got {}", c.layers,
                      c.is_window_layer.size());
  if (c.window < 0) throw usage_error("[config] expected sliding_window >= 0, got {}", c.window);
  if (!(c.norm_eps >= 0))
    throw usage_error("[config] expected rms_norm_eps >= 0, got {}", c.norm_eps);
}

std::span<const Preset> presets() {
  static const std::vector<Preset> presets = {
      make_preset("tiny", 256, 4, 512, 8, 128),
      make_preset("small", 512, 8, 2048, 8, 128),
      make_preset("medium", 1024, 12, 4096, 16, 512),
      make_preset("large", 2048, 16, 8192, 8, 1024),
  };
  return presets;
}

const Preset& preset(std::string_view name) {
  std::string names;
  for (const Preset& each : presets()) {
    if (each.config.name == name) return each;
    names += (names.empty() ? "" : ", ") + each.config.name;
  }
  throw usage_error("[preset] expected one of {}, got '{}'", names, name);
}

}  // namespace ridge::models
