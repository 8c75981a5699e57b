// SPDX-License-Identifier: Apache-2.0
// Writes the keys that config_gguf.cc reads, and rejects what GGUF cannot represent.
#include <cmath>

#include "base/error.h"
#include "models/config_gguf.h"

namespace ridge::models {
namespace {

using files::GgufValue;

// The n for which each n-th layer has full attention and all others a window; GGUF can represent no
// other pattern.
uint32_t window_period(const ModelConfig& c) {
  int64_t period = 1;
  while (period <= c.layers && c.is_window(period - 1)) ++period;
  for (int64_t layer = 0; layer < c.layers; ++layer)
    if (c.is_window(layer) != ((layer + 1) % period != 0))
      throw usage_error(
          "[convert] GGUF can only store a regular pattern of sliding windows: expected "
          "full_attention in every {}th layer, found another layer_type at layer {}",
          period, layer);
  return static_cast<uint32_t>(period);
}

void set_gemma3(files::GgufWriter& writer, const ModelConfig& c) {
  writer.set("gemma3.attention.sliding_window", static_cast<uint32_t>(c.window));
  writer.set("gemma3.attention.sliding_window_pattern", window_period(c));
  writer.set("gemma3.rope.freq_base_swa", static_cast<float>(c.window_rope_theta));
  if (c.logit_cap > 0)
    writer.set("gemma3.final_logit_softcapping", static_cast<float>(c.logit_cap));
  double implied = gguf_attention_scale(c);
  if (std::abs(c.attention_scale - implied) > 1e-6 * implied)
    throw usage_error(
        "[convert] GGUF has no key for query_pre_attn_scalar: expected {:g}, found {:g}",
        1 / (implied * implied), 1 / (c.attention_scale * c.attention_scale));
}

}  // namespace

void set_config(files::GgufWriter& writer, const ModelConfig& c) {
  const std::string architecture(facts(c.family).architecture);
  if (c.family != Family::kGemma3 && c.has_window_layers())
    throw usage_error(
        "[convert] GGUF's architecture {} has no sliding windows: expected none, found windows of "
        "{}",
        architecture, c.window);
  writer.set("general.architecture", GgufValue(architecture));
  writer.set("general.type", GgufValue("model"));
  writer.set("general.name", GgufValue(c.name));
  auto set_count = [&](const char* key, int64_t count) {
    writer.set(architecture + "." + key, static_cast<uint32_t>(count));
  };
  auto set_real = [&](const char* key, double value) {
    writer.set(architecture + "." + key, static_cast<float>(value));
  };
  set_count("context_length", c.context);
  set_count("embedding_length", c.hidden);
  set_count("block_count", c.layers);
  set_count("feed_forward_length", c.feed_forward);
  set_count("attention.head_count", c.heads);
  set_count("attention.head_count_kv", c.kv_heads);
  set_count("attention.key_length", c.head_size);
  set_count("attention.value_length", c.head_size);
  set_real("attention.layer_norm_rms_epsilon", c.norm_eps);
  set_count("vocab_size", c.vocabulary);
  set_count("rope.dimension_count", c.head_size);
  set_real("rope.freq_base", c.rope_theta);
  if (c.rope_scaling.kind == "linear") {
    writer.set(architecture + ".rope.scaling.type", GgufValue("linear"));
    set_real("rope.scaling.factor", c.rope_scaling.factor);
  }
  if (c.family == Family::kGemma3) set_gemma3(writer, c);
}

}  // namespace ridge::models
