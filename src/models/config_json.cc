// SPDX-License-Identifier: Apache-2.0
// Reads config.json, key by key.
#include "models/config_json.h"

#include <algorithm>
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

// The window of Mistral and Qwen. Files say null for none; without the key transformers takes 4096.
int64_t window_or_4096(const JsonField& file) {
  return file.integer_or("sliding_window", file.value().contains("sliding_window") ? 0 : 4096);
}

// Window layers of Mistral and Qwen rotate as all others do, but theirs is a table without scaling.
void share_rotation(const JsonField& file, ModelConfig& c) {
  if (!c.rope_scaling.kind.empty())
    throw file.fault("no sliding window next to a scaling of RoPE", std::to_string(c.window));
  c.window_rope_theta = c.rope_theta;
}

// Mistral: all layers attend to the window, if there is one.
void read_mistral_window(const JsonField& file, ModelConfig& c) {
  c.window = window_or_4096(file);
  if (c.window == 0 || c.layers < 1 || c.layers > kMostLayers) return;  // validate() rejects these
  share_rotation(file, c);
  c.is_window_layer.assign(static_cast<size_t>(c.layers), true);
}

// Which layers attend to a window only, listed one by one.
void read_layer_types(const JsonField& file, ModelConfig& c) {
  for (const JsonField& type : file.at("layer_types").items()) {
    if (type.text() != "sliding_attention" && type.text() != "full_attention")
      throw type.fault("'sliding_attention' or 'full_attention'");
    c.is_window_layer.push_back(type.text() == "sliding_attention");
  }
}

// Qwen: windows count only where "use_sliding_window" is true. Then the listed layers have them or,
// without a list, those from "max_window_layers" on.
void read_qwen_windows(const JsonField& file, ModelConfig& c) {
  const bool uses_windows = file.flag_or("use_sliding_window", false);
  if (uses_windows) c.window = window_or_4096(file);
  const int64_t full = file.integer_or("max_window_layers", 28);
  if (full < 0) throw file.at("max_window_layers").fault("at least 0");
  if (file.has("layer_types")) {
    read_layer_types(file, c);
  } else if (c.window != 0 && c.layers >= 1 && c.layers <= kMostLayers) {
    for (int64_t layer = 0; layer < c.layers; ++layer) c.is_window_layer.push_back(layer >= full);
  }
  const bool lists_windows = std::find(c.is_window_layer.begin(), c.is_window_layer.end(), true) !=
                             c.is_window_layer.end();
  if (lists_windows && c.window == 0)
    throw file.at("layer_types")
        .fault("'full_attention' alone without use_sliding_window and a sliding_window",
               "'sliding_attention'");
  if (!lists_windows) {
    c.window = 0;
    return;
  }
  share_rotation(file, c);
}

// Gemma 3: listed, or all layers except each n-th.
void read_gemma3_windows(const JsonField& file, ModelConfig& c) {
  c.window = file.integer_or("sliding_window", 0);
  if (file.has("layer_types")) return read_layer_types(file, c);
  int64_t pattern =
      file.integer_or("sliding_window_pattern", file.integer_or("_sliding_window_pattern", 6));
  if (pattern < 1) throw file.fault("sliding_window_pattern >= 1", std::to_string(pattern));
  if (c.layers > kMostLayers) return;  // validate() rejects it
  for (int64_t layer = 0; layer < c.layers; ++layer)
    c.is_window_layer.push_back((layer + 1) % pattern != 0);
}

void read_gemma3(const JsonField& file, ModelConfig& c) {
  c.norm_offset = 1;
  // transformers ignores this key, so nobody can say what a model that has it expects.
  if (file.has("attn_logit_softcapping"))
    throw file.at("attn_logit_softcapping").fault("null, as Gemma 3 does not cap scores");
  c.logit_cap = file.real_or("final_logit_softcapping", 0);
  if (file.has("final_logit_softcapping") && !(c.logit_cap > 0))
    throw file.at("final_logit_softcapping").fault("null or a number > 0");
  read_gemma3_windows(file, c);
  double scalar = file.real_or("query_pre_attn_scalar", static_cast<double>(c.head_size));
  if (!(scalar > 0)) throw file.at("query_pre_attn_scalar").fault("a number > 0");
  c.attention_scale = 1 / std::sqrt(scalar);
}

// As transformers does, ignores keys of biases that the family does not have.
void read_biases(const JsonField& file, const FamilyFacts& family, ModelConfig& c) {
  if (family.has_attention_bias_key)
    c.qkv_bias = c.output_bias = file.flag_or("attention_bias", false);
  if (family.has_mlp_bias_key) c.mlp_bias = file.flag_or("mlp_bias", false);
  if (family.family == Family::kQwen2) c.qkv_bias = true;
}

void read_activation(const JsonField& file, const ModelConfig& c) {
  const char* key = file.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const char* expected = c.family == Family::kGemma3 ? "gelu_pytorch_tanh" : "silu";
  std::string found = file.text_or(key, expected);
  if (found != expected) throw file.at(key).fault(fmt::format("'{}'", expected), printable(found));
}

// transformers takes 128 for Qwen 3 if the file does not say.
int64_t read_head_size(const JsonField& file, const ModelConfig& c) {
  if (file.has("head_dim")) return file.at("head_dim").integer();
  if (c.family == Family::kQwen3) return 128;
  if (c.heads < 1 || c.hidden % c.heads != 0)
    throw file.fault("hidden_size as a multiple of num_attention_heads",
                     fmt::format("{} and {}", c.hidden, c.heads));
  return c.hidden / c.heads;
}

}  // namespace

ModelConfig parse_config(const nlohmann::json& document, std::string_view source) {
  JsonField file(document, std::string(source));
  file.object();  // throws unless it is an object
  ModelConfig c;
  std::string type = file.text_or("model_type", "llama");
  const FamilyFacts* family = family_of_model_type(type);
  if (family == nullptr) throw file.at("model_type").fault(known_model_types(), printable(type));
  c.family = family->family;
  c.name = file.text_or("_name_or_path", type.c_str());
  c.vocabulary = file.at("vocab_size").integer();
  c.hidden = file.at("hidden_size").integer();
  c.layers = file.at("num_hidden_layers").integer();
  c.heads = file.at("num_attention_heads").integer();
  c.kv_heads = file.integer_or("num_key_value_heads", c.heads);
  c.head_size = read_head_size(file, c);
  c.feed_forward = file.at("intermediate_size").integer();
  c.context = file.integer_or("max_position_embeddings", 2048);
  c.norm_eps = file.real_or("rms_norm_eps", 1e-6);
  c.tied_head = file.flag_or("tie_word_embeddings", c.family == Family::kGemma3);
  read_biases(file, *family, c);
  c.rope_interleaved = file.flag_or("rope_interleaved", false);
  read_activation(file, c);
  read_rope(file, c);
  if (c.family == Family::kMistral) read_mistral_window(file, c);
  if (c.family == Family::kQwen2 || c.family == Family::kQwen3) read_qwen_windows(file, c);
  if (c.family == Family::kGemma3) read_gemma3(file, c);
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
