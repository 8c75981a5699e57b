// SPDX-License-Identifier: Apache-2.0
// Presets and validation of model configurations.
#include "models/config.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::models {
namespace {

constexpr double kMostFactor = 1e30;  // for RoPE and for the scale of attention

void expect_between(const char* field, int64_t value, int64_t most) {
  if (value < 1 || value > most)
    throw usage_error("[config] expected {} between 1 and {}, got {}", field, most, value);
}

void expect_positive(const char* field, double value) {
  if (!(value > 0 && value <= kMostFactor))
    throw usage_error("[config] expected {} above 0 and at most {:g}, got {:g}", field, kMostFactor,
                      value);
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

bool ModelConfig::has_window_layers() const {
  return window > 0 &&
         std::find(is_window_layer.begin(), is_window_layer.end(), true) != is_window_layer.end();
}

bool ModelConfig::has_full_layers() const {
  return window == 0 || is_window_layer.empty() ||
         std::find(is_window_layer.begin(), is_window_layer.end(), false) != is_window_layer.end();
}

int64_t ModelConfig::parameters() const {
  int64_t attention = hidden * head_size * (2 * heads + 2 * kv_heads);
  int64_t mlp = 3 * hidden * feed_forward;
  if (qkv_bias) attention += (heads + 2 * kv_heads) * head_size;
  if (output_bias) attention += hidden;
  if (mlp_bias) mlp += 2 * feed_forward + hidden;
  // Gemma 3 has norms on the input and the output of both halves, others on the input alone.
  int64_t norms = (family == Family::kGemma3 ? 4 : 2) * hidden;
  if (has_head_norms()) norms += 2 * head_size;
  int64_t tables = vocabulary * hidden * (tied_head ? 1 : 2);
  return layers * (attention + mlp + norms) + hidden + tables;
}

ModelConfig folder_form(const ModelConfig& config) {
  ModelConfig form = config;
  form.rope_interleaved = false;
  form.norm_offset = form.family == Family::kGemma3 ? 1 : 0;
  return form;
}

void validate(const ModelConfig& c) {
  expect_between("vocab_size", c.vocabulary, kMostVocabulary);
  expect_between("hidden_size", c.hidden, kMostHidden);
  expect_between("num_hidden_layers", c.layers, kMostLayers);
  expect_between("num_attention_heads", c.heads, kMostHeads);
  expect_between("num_key_value_heads", c.kv_heads, c.heads);
  expect_between("head_dim", c.head_size, kMostHeadSize);
  expect_between("intermediate_size", c.feed_forward, kMostFeedForward);
  expect_between("max_position_embeddings", c.context, kMostContext);
  if (c.heads % c.kv_heads != 0)
    throw usage_error(
        "[config] expected num_attention_heads to be a multiple of num_key_value_heads, got {} and "
        "{}",
        c.heads, c.kv_heads);
  if (c.head_size % 2 != 0)
    throw usage_error("[rope] expected an even head size, got {}", c.head_size);
  expect_positive("rope_theta", c.rope_theta);
  expect_positive("rope_local_base_freq", c.window_rope_theta);
  expect_positive("the factor of rope_scaling", c.rope_scaling.factor);
  if (!c.is_window_layer.empty() && static_cast<int64_t>(c.is_window_layer.size()) != c.layers)
    throw usage_error("[config] expected {} layer_types, got {}", c.layers,
                      c.is_window_layer.size());
  if (c.window < 0 || c.window > kMostContext)
    throw usage_error("[config] expected sliding_window between 0 and {}, got {}", kMostContext,
                      c.window);
  if (!(c.norm_eps >= 0 && c.norm_eps <= 1))
    throw usage_error("[config] expected rms_norm_eps between 0 and 1, got {:g}", c.norm_eps);
  if (!(c.attention_scale >= 0 && c.attention_scale <= kMostFactor))
    throw usage_error("[config] expected an attention scale of at most {:g}, got {:g}", kMostFactor,
                      c.attention_scale);
  if (!(c.logit_cap >= 0 && c.logit_cap <= kMostFactor))
    throw usage_error("[config] expected a soft cap of logits between 0 and {:g}, got {:g}",
                      kMostFactor, c.logit_cap);
  if (c.parameters() > kMostParameters)
    throw usage_error("[config] expected a model of at most {} parameters, got {}", kMostParameters,
                      c.parameters());
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
