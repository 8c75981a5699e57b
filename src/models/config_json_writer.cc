// SPDX-License-Identifier: Apache-2.0
// Writes config.json as transformers does, with RoPE under the new key and under the old ones that
// older versions read.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/config_json.h"

namespace ridge::models {
namespace {

using json = nlohmann::ordered_json;

// GGUF stores fp32, where 1e-6 is 9.99999997e-07 in fp64. Returns the decimal that was meant.
double meant(double value) {
  auto narrow = static_cast<float>(value);
  return static_cast<double>(narrow) == value ? json::parse(fmt::format("{}", narrow)).get<double>()
                                              : value;
}

json rope_set(double theta, const RopeScaling& scaling) {
  json set{{"rope_theta", meant(theta)},
           {"rope_type", scaling.kind.empty() ? "default" : scaling.kind}};
  if (scaling.kind.empty()) return set;
  set["factor"] = meant(scaling.factor);
  if (scaling.kind == "linear") return set;
  set["original_max_position_embeddings"] = static_cast<int64_t>(scaling.original_context);
  set["low_freq_factor"] = scaling.low_frequency_factor;
  set["high_freq_factor"] = scaling.high_frequency_factor;
  return set;
}

void add_rope(json& out, const ModelConfig& c) {
  json full = rope_set(c.rope_theta, c.rope_scaling);
  out["rope_theta"] = meant(c.rope_theta);
  json old = full;
  old.erase("rope_theta");
  out["rope_scaling"] = c.rope_scaling.kind.empty() ? json() : old;
  if (c.family != Family::kGemma3) {
    out["rope_parameters"] = full;
    return;
  }
  out["rope_local_base_freq"] = meant(c.window_rope_theta);
  out["rope_parameters"] = {{"full_attention", full},
                            {"sliding_attention", rope_set(c.window_rope_theta, {})}};
}

json layer_types(const ModelConfig& c) {
  json types = json::array();
  for (int64_t layer = 0; layer < c.layers; ++layer)
    types.push_back(c.is_window(layer) ? "sliding_attention" : "full_attention");
  return types;
}

// Versions of transformers that do not read the list take the number of full layers before the
// first window.
void add_qwen(json& out, const ModelConfig& c) {
  int64_t full = 0;
  while (full < c.layers && !c.is_window(full)) ++full;
  out["use_sliding_window"] = c.has_window_layers();
  out["sliding_window"] = c.has_window_layers() ? json(c.window) : json();
  out["max_window_layers"] = full;
  out["layer_types"] = layer_types(c);
}

void add_gemma3(json& out, const ModelConfig& c) {
  out["layer_types"] = layer_types(c);
  out["sliding_window"] = c.window;
  double scalar = 1 / (c.attention_scale * c.attention_scale);
  // In every published model the scale was derived from an integer.
  double rounded = std::round(scalar);
  out["query_pre_attn_scalar"] = std::abs(scalar - rounded) <= 1e-9 * scalar
                                     ? json(static_cast<int64_t>(rounded))
                                     : json(scalar);
  out["attn_logit_softcapping"] = nullptr;
  out["final_logit_softcapping"] = c.logit_cap > 0 ? json(c.logit_cap) : json();
}

// The family's model in transformers has fixed biases, or one key for those of q, k, v and o.
void check_biases(const ModelConfig& c) {
  const FamilyFacts& family = facts(c.family);
  const bool expected = family.has_attention_bias_key ? c.output_bias : c.family == Family::kQwen2;
  auto refuse = [&](const char* where, bool is_expected) {
    throw usage_error("[convert] config.json of '{}' cannot say this: expected {} bias on {}",
                      family.model_type, is_expected ? "a" : "no", where);
  };
  if (c.qkv_bias != expected) refuse("q, k and v", expected);
  if (c.output_bias && !family.has_attention_bias_key) refuse("o", false);
  if (c.mlp_bias && !family.has_mlp_bias_key) refuse("the MLP", false);
}

}  // namespace

std::string config_json(const ModelConfig& c, DType dtype, const text::TokenizerSpec* tokenizer) {
  bool is_gemma = c.family == Family::kGemma3;
  std::string_view written = dtype == DType::kBF16  ? "bfloat16"
                             : dtype == DType::kF16 ? "float16"
                                                    : "float32";
  const FamilyFacts& family = facts(c.family);
  check_biases(c);
  json out{{"architectures", {family.transformers_class}},
           {"model_type", family.model_type},
           {"dtype", written},
           {"torch_dtype", written},
           {"vocab_size", c.vocabulary},
           {"hidden_size", c.hidden},
           {"intermediate_size", c.feed_forward},
           {"num_hidden_layers", c.layers},
           {"num_attention_heads", c.heads},
           {"num_key_value_heads", c.kv_heads},
           {"head_dim", c.head_size},
           {"max_position_embeddings", c.context},
           {"rms_norm_eps", meant(c.norm_eps)},
           {is_gemma ? "hidden_activation" : "hidden_act", is_gemma ? "gelu_pytorch_tanh" : "silu"},
           {"tie_word_embeddings", c.tied_head},
           {"attention_dropout", 0.0},
           {"use_cache", true}};
  if (family.has_attention_bias_key) out["attention_bias"] = c.output_bias;
  if (family.has_mlp_bias_key) out["mlp_bias"] = c.mlp_bias;
  if (c.family == Family::kMistral)
    out["sliding_window"] = c.has_window_layers() ? json(c.window) : json();
  if (c.family == Family::kQwen2 || c.family == Family::kQwen3) add_qwen(out, c);
  add_rope(out, c);
  if (is_gemma) add_gemma3(out, c);
  auto id = [&](const char* key, int32_t token) {
    out[key] = token == text::kNoToken ? json() : json(token);
  };
  if (tokenizer != nullptr) {
    id("bos_token_id", tokenizer->bos);
    id("eos_token_id", tokenizer->eos);
    id("pad_token_id", tokenizer->padding);
  }
  return out.dump(2) + "\n";
}

}  // namespace ridge::models
