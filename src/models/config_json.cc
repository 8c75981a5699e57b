// SPDX-License-Identifier: Apache-2.0
// Key by key.
#include "models/config_json.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "files/json.h"

namespace ridge::models {
namespace {

using nlohmann::json;

// Typed access with errors that name the file and the key.
class Reader {
 public:
  Reader(const json& object, std::string source) : object_(object), source_(std::move(source)) {
    if (!object.is_object())
      throw file_error("[config] {}: expected an object, found {}", source_, object.type_name());
  }

  bool has(const char* key) const { return object_.contains(key) && !object_[key].is_null(); }

  int64_t integer(const char* key) const {
    const json& value = at(key);
    if (!value.is_number_integer()) wrong(key, "an integer");
    if (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX)
      wrong(key, "a smaller integer");
    return value.get<int64_t>();
  }
  int64_t integer_or(const char* key, int64_t fallback) const {
    return has(key) ? integer(key) : fallback;
  }

  double real(const char* key) const {
    const json& value = at(key);
    if (!value.is_number()) wrong(key, "a number");
    double number = value.get<double>();
    if (!std::isfinite(number)) wrong(key, "a finite number");
    return number;
  }
  double real_or(const char* key, double fallback) const { return has(key) ? real(key) : fallback; }

  bool flag_or(const char* key, bool fallback) const {
    if (!has(key)) return fallback;
    if (!object_[key].is_boolean()) wrong(key, "true or false");
    return object_[key].get<bool>();
  }

  std::string text_or(const char* key, const char* fallback) const {
    if (!has(key)) return fallback;
    if (!object_[key].is_string()) wrong(key, "a string");
    return object_[key].get<std::string>();
  }

  Reader object(const char* key) const { return Reader(at(key), source_ + ": " + key); }
  const json& at(const char* key) const {
    if (!has(key)) throw file_error("[config] {}: the key '{}' is missing", source_, key);
    return object_[key];
  }
  [[noreturn]] void wrong(const char* key, const char* expected) const {
    std::string found =
        object_[key].dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 60);
    throw file_error("[config] {}: expected {} as '{}', found {}", source_, expected, key, found);
  }
  const std::string& source() const { return source_; }

 private:
  const json& object_;
  std::string source_;
};

// "rope_scaling" of old files and "rope_parameters" of new ones; both name the kind "rope_type" or
// "type".
void read_scaling(const Reader& rope, RopeScaling& scaling) {
  std::string kind =
      rope.has("rope_type") ? rope.text_or("rope_type", "") : rope.text_or("type", "default");
  if (kind == "default") return;
  if (kind != "linear" && kind != "llama3")
    throw file_error(
        "[config] {}: expected the rope type 'default', 'linear' or 'llama3', found '{}'",
        rope.source(), kind);
  scaling.kind = kind;
  scaling.factor = rope.real("factor");
  if (!(scaling.factor > 0))
    throw file_error("[config] {}: expected factor > 0, found {}", rope.source(), scaling.factor);
  if (kind == "linear") return;
  scaling.original_context = rope.real("original_max_position_embeddings");
  scaling.low_frequency_factor = rope.real("low_freq_factor");
  scaling.high_frequency_factor = rope.real("high_freq_factor");
  if (!(scaling.high_frequency_factor > scaling.low_frequency_factor))
    throw file_error("[config] {}: expected high_freq_factor > low_freq_factor", rope.source());
}

void read_rope(const Reader& file, ModelConfig& c) {
  c.rope_theta = file.real_or("rope_theta", c.family == Family::kGemma3 ? 1e6 : 1e4);
  c.window_rope_theta = file.real_or("rope_local_base_freq", 1e4);
  if (file.has("rope_scaling")) read_scaling(file.object("rope_scaling"), c.rope_scaling);
  if (!file.has("rope_parameters")) return;
  Reader rope = file.object("rope_parameters");
  if (rope.has("full_attention")) {  // Gemma 3: one set for each kind of layer
    Reader full = rope.object("full_attention");
    c.rope_theta = full.real("rope_theta");
    read_scaling(full, c.rope_scaling);
    if (rope.has("sliding_attention"))
      c.window_rope_theta = rope.object("sliding_attention").real("rope_theta");
    return;
  }
  c.rope_theta = rope.real_or("rope_theta", c.rope_theta);
  read_scaling(rope, c.rope_scaling);
}

// Which layers see a window only: named one by one, or every layer but each n-th.
void read_windows(const Reader& file, ModelConfig& c) {
  c.window = file.integer_or("sliding_window", 0);
  if (file.has("layer_types")) {
    const json& types = file.at("layer_types");
    if (!types.is_array()) file.wrong("layer_types", "a list");
    for (const json& type : types) {
      bool known = type == "sliding_attention" || type == "full_attention";
      if (!known)
        file.wrong("layer_types", "'sliding_attention' or 'full_attention' for each layer");
      c.is_window_layer.push_back(type == "sliding_attention");
    }
    return;
  }
  int64_t pattern =
      file.integer_or("sliding_window_pattern", file.integer_or("_sliding_window_pattern", 6));
  if (pattern < 1)
    throw file_error("[config] {}: expected sliding_window_pattern >= 1, found {}", file.source(),
                     pattern);
  if (c.layers > 4096) return;  // refused by validate
  for (int64_t layer = 0; layer < c.layers; ++layer)
    c.is_window_layer.push_back((layer + 1) % pattern != 0);
}

void read_activation(const Reader& file, const ModelConfig& c) {
  const char* key = file.has("hidden_activation") ? "hidden_activation" : "hidden_act";
  const char* expected = c.family == Family::kGemma3 ? "gelu_pytorch_tanh" : "silu";
  std::string found = file.text_or(key, expected);
  if (found != expected)
    throw file_error("[config] {}: expected '{}' as '{}', found '{}'", file.source(), expected, key,
                     found);
}

}  // namespace

ModelConfig parse_config(const json& document, std::string_view source) {
  Reader file(document, std::string(source));
  ModelConfig c;
  std::string type = file.text_or("model_type", "llama");
  if (type != "llama" && type != "gemma3_text")
    throw file_error("[config] {}: expected the model_type 'llama' or 'gemma3_text', found '{}'",
                     source, type);
  c.family = type == "llama" ? Family::kLlama : Family::kGemma3;
  c.name = file.text_or("_name_or_path", type.c_str());
  c.vocabulary = file.integer("vocab_size");
  c.hidden = file.integer("hidden_size");
  c.layers = file.integer("num_hidden_layers");
  c.heads = file.integer("num_attention_heads");
  c.kv_heads = file.integer_or("num_key_value_heads", c.heads);
  if (!file.has("head_dim") && (c.heads < 1 || c.hidden % c.heads != 0))
    throw file_error(
        "[config] {}: expected hidden_size as a multiple of num_attention_heads, found {} and {}",
        source, c.hidden, c.heads);
  c.head_size = file.has("head_dim") ? file.integer("head_dim") : c.hidden / c.heads;
  c.feed_forward = file.integer("intermediate_size");
  c.context = file.integer_or("max_position_embeddings", 2048);
  c.norm_eps = file.real_or("rms_norm_eps", 1e-6);
  c.tied_head = file.flag_or("tie_word_embeddings", c.family == Family::kGemma3);
  c.attention_bias = file.flag_or("attention_bias", false);
  c.mlp_bias = file.flag_or("mlp_bias", false);
  c.rope_interleaved = file.flag_or("rope_interleaved", false);
  read_activation(file, c);
  read_rope(file, c);
  if (c.family == Family::kGemma3) {
    c.norm_offset = 1;
    read_windows(file, c);
    double scalar = file.real_or("query_pre_attn_scalar", static_cast<double>(c.head_size));
    if (!(scalar > 0))
      throw file_error("[config] {}: expected query_pre_attn_scalar > 0, found {}", source, scalar);
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
