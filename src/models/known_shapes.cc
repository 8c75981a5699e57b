// SPDX-License-Identifier: Apache-2.0
// The table of published configurations, from the config.json of each model on Hugging Face.
#include "models/known_shapes.h"

#include <filesystem>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "models/config_json.h"

namespace ridge::models {
namespace {

struct LlamaShape {
  const char* name;
  int64_t vocabulary, hidden, layers, heads, kv_heads, feed_forward, context;
  double rope_theta;
  bool tied_head;
};

ModelConfig llama(const LlamaShape& s) {
  ModelConfig c;
  c.name = s.name;
  c.vocabulary = s.vocabulary;
  c.hidden = s.hidden;
  c.layers = s.layers;
  c.heads = s.heads;
  c.kv_heads = s.kv_heads;
  c.head_size = s.hidden / s.heads;
  c.feed_forward = s.feed_forward;
  c.context = s.context;
  c.rope_theta = s.rope_theta;
  c.norm_eps = 1e-5;
  c.tied_head = s.tied_head;
  return c;
}

// Every sixth layer attends to all positions.
ModelConfig gemma3(const char* name, int64_t hidden, int64_t layers, int64_t feed_forward) {
  constexpr int64_t kPeriod = 6;
  ModelConfig c;
  c.name = name;
  c.family = Family::kGemma3;
  c.vocabulary = 262'144;
  c.hidden = hidden;
  c.layers = layers;
  c.heads = 4;
  c.kv_heads = 1;
  c.head_size = 256;
  c.feed_forward = feed_forward;
  c.context = 32'768;
  c.rope_theta = 1e6;
  c.norm_offset = 1;
  c.window = 512;
  for (int64_t layer = 0; layer < layers; ++layer)
    c.is_window_layer.push_back(layer % kPeriod != kPeriod - 1);
  c.attention_scale = 1.0 / 16;
  return c;
}

}  // namespace

std::span<const ModelConfig> known_shapes() {
  static const std::vector<ModelConfig> shapes = {
      gemma3("gemma3-270m", 640, 18, 2048),
      gemma3("gemma3-1b", 1152, 26, 6912),
      llama({"llama-2-7b", 32'000, 4096, 32, 32, 32, 11'008, 4096, 1e4, false}),
      llama({"llama-2-70b", 32'000, 8192, 80, 64, 8, 28'672, 4096, 1e4, false}),
      llama({"llama-3-8b", 128'256, 4096, 32, 32, 8, 14'336, 8192, 5e5, false}),
      llama({"smollm2-135m", 49'152, 576, 30, 9, 3, 1536, 8192, 1e5, true})};
  return shapes;
}

const ModelConfig* find_known_shape(std::string_view name) {
  for (const ModelConfig& each : known_shapes())
    if (each.name == name) return &each;
  return nullptr;
}

std::string known_shape_names() {
  std::string names;
  for (const Preset& each : presets()) names += each.config.name + ", ";
  for (const ModelConfig& each : known_shapes())
    names += (&each == &known_shapes().front() ? "" : ", ") + each.name;
  return names;
}

ModelConfig config_by_name(const std::string& name) {
  std::vector<std::string> known;
  for (const Preset& each : presets()) {
    if (each.config.name == name) return each.config;
    known.push_back(each.config.name);
  }
  if (const ModelConfig* found = find_known_shape(name)) return *found;
  for (const ModelConfig& each : known_shapes()) known.push_back(each.name);
  std::error_code error;
  if (std::filesystem::exists(name, error)) return load_config(name);
  throw usage_error("[config] expected {}, or a config.json, got {}{}", known_shape_names(),
                    printable(name), did_you_mean(name, known));
}

}  // namespace ridge::models
