// SPDX-License-Identifier: Apache-2.0
// Reads config.json, key by key.
#include "models/config_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"
#include "files/json_field.h"

namespace ridge::models {
namespace {

using files::JsonField;

// Reads "rope_scaling" of old files or "rope_parameters" of new ones; both call the kind
// "rope_type" or "type".
void read_scaling(const JsonField& rope, RopeScaling& scaling) {
  rope.object();  // throws unless it is an object
  std::string kind =
      rope.has("rope_type") ? rope.text_or("rope_type", "") : rope.text_or("type", "default");
  if (kind == "default") return;
  if (kind != "linear" && kind != "llama3")
    throw rope.fault("the rope type 'default', 'linear' or 'llama3'", printable(kind));
  scaling.kind = kind;
  scaling.factor = rope.at("factor").real();
  if (!(scaling.factor > 0)) throw rope.fault("factor > 0", fmt::format("{}", scaling.factor));
  if (kind == "linear") return;
  scaling.original_context = rope.at("original_max_position_embeddings").real();
  scaling.low_frequency_factor = rope.at("low_freq_factor").real();
  scaling.high_frequency_factor = rope.at("high_freq_factor").real();
  if (!(scaling.high_frequency_factor > scaling.low_frequency_factor))
    throw rope.at("high_freq_factor").fault("more than low_freq_factor");
}

void read_rope(const JsonField& file, ModelConfig& c) {
  c.rope_theta = file.real_or("rope_theta", c.family == Family::kGemma3 ? 1e6 : 1e4);
  c.window_rope_theta = file.real_or("rope_local_base_freq", 1e4);
  if (file.has("rope_scaling")) read_scaling(file.at("rope_scaling"), c.rope_scaling);
  if (!file.has("rope_parameters")) return;
  JsonField rope = file.at("rope_parameters");
  rope.object();
  if (rope.has("full_attention")) {  // Gemma 3: one set for each kind of layer
    JsonField full = rope.at("full_attention");
    c.rope_theta = full.at("rope_theta").real();
    read_scaling(full, c.rope_scaling);
    if (rope.has("sliding_attention"))
      c.window_rope_theta = rope.at("sliding_attention").at("rope_theta").real();
    return;
  }
  c.rope_theta = rope.real_or("rope_theta", c.rope_theta);
  read_scaling(rope, c.rope_scaling);
}

// Mistral: all layers attend to the window, if there is one, and rotate alike. Files say null for
// none; without the key transformers takes 4096.
void read_mistral_window(const JsonField& file, ModelConfig& c) {
  const bool is_given = file.value().contains("sliding_window");
  c.window = file.integer_or("sliding_window", is_given ? 0 : 4096);
  if (c.window == 0 || c.layers < 1 || c.layers > kMostLayers) return;  // validate() rejects these
  if (!c.rope_scaling.kind.empty())
    throw file.at("sliding_window").fault("none beside a scaling of RoPE");
  c.is_window_layer.assign(static_cast<size_t>(c.layers), true);
  c.window_rope_theta = c.rope_theta;
}

// Reads which layers attend to a window only: listed one by one, or all layers except each n-th.
void read_windows(const JsonField& file, ModelConfig& c) {
  c.window = file.integer_or("sliding_window", 0);
  if (file.has("layer_types")) {
    for (const JsonField& type : file.at("layer_types").items()) {
      if (type.text() != "sliding_attention" && type.text() != "full_attention")
        throw type.fault("'sliding_attention' or 'full_attention'");
      c.is_window_layer.push_back(type.text() == "sliding_attention");
    }
    return;
  }
  int64_t pattern =
      file.integer_or("sliding_window_pattern", file.integer_or("_sliding_window_pattern", 6));
  if (pattern < 1) throw file.fault("sliding_window_pattern >= 1", std::to_string(pattern));
  if (c.layers > kMostLayers) return;  // validate() rejects it
  for (int64_t layer = 0; layer < c.layers; ++layer)
    c.is_window_layer.push_back((layer + 1) % pattern != 0);
}

void read_activation(const JsonField& file, const ModelConfig& c) {
  const char* key = file.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const char* expected = c.family == Family::kGemma3 ? "gelu_pytorch_tanh" : "silu";
  std::string found = file.text_or(key, expected);
  if (found != expected) throw file.at(key).fault(fmt::format("'{}'", expected), printable(found));
}

}  // namespace

ModelConfig parse_config(const nlohmann::json& document, std::string_view source) {
  JsonField file(document, std::string(source));
  file.object();  // throws unless it is an object
  ModelConfig c;
  std::string type = file.text_or("model_type", "llama");
  if (type != "llama" && type != "mistral" && type != "gemma3_text")
    throw file.at("model_type").fault("'llama', 'mistral' or 'gemma3_text'", printable(type));
  c.family = type == "gemma3_text" ? Family::kGemma3 : Family::kLlama;
  c.name = file.text_or("_name_or_path", type.c_str());
  c.vocabulary = file.at("vocab_size").integer();
  c.hidden = file.at("hidden_size").integer();
  c.layers = file.at("num_hidden_layers").integer();
  c.heads = file.at("num_attention_heads").integer();
  c.kv_heads = file.integer_or("num_key_value_heads", c.heads);
  if (!file.has("head_dim") && (c.heads < 1 || c.hidden % c.heads != 0))
    throw file.fault("hidden_size as a multiple of num_attention_heads",
                     fmt::format("{} and {}", c.hidden, c.heads));
  c.head_size = file.has("head_dim") ? file.at("head_dim").integer() : c.hidden / c.heads;
  c.feed_forward = file.at("intermediate_size").integer();
  c.context = file.integer_or("max_position_embeddings", 2048);
  c.norm_eps = file.real_or("rms_norm_eps", 1e-6);
  c.tied_head = file.flag_or("tie_word_embeddings", c.family == Family::kGemma3);
  c.attention_bias = file.flag_or("attention_bias", false);
  c.mlp_bias = file.flag_or("mlp_bias", false);
  c.rope_interleaved = file.flag_or("rope_interleaved", false);
  read_activation(file, c);
  read_rope(file, c);
  if (type == "mistral") read_mistral_window(file, c);
  if (c.family == Family::kGemma3) {
    c.norm_offset = 1;
    for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"})
      if (file.has(cap)) throw file.at(cap).fault("null, as capped logits cannot be computed");
    read_windows(file, c);
    double scalar = file.real_or("query_pre_attn_scalar", static_cast<double>(c.head_size));
    if (!(scalar > 0)) throw file.at("query_pre_attn_scalar").fault("a number > 0");
    c.attention_scale = 1 / std::sqrt(scalar);
  }
  try {
    validate(c);
  } catch (const Error& error) {
    throw file_error("{} in {}", error.what(), source);
  }
  return c;
}

ModelConfig load_config(const std::filesystem::path& path) {
  std::filesystem::path file = std::filesystem::is_directory(path) ? path / "config.json" : path;
  return parse_config(files::read_json(file), file.string());
}

}  // namespace ridge::models
