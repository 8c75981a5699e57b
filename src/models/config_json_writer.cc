// SPDX-License-Identifier: Apache-2.0
// Writes config.json as transformers does, with RoPE under the new key and under the old ones that
// older versions read.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

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
  if (c.family == Family::kLlama) {
    out["rope_parameters"] = full;
    return;
  }
  out["rope_local_base_freq"] = meant(c.window_rope_theta);
  out["rope_parameters"] = {{"full_attention", full},
                            {"sliding_attention", rope_set(c.window_rope_theta, {})}};
}

void add_gemma3(json& out, const ModelConfig& c) {
  json types = json::array();
  for (int64_t layer = 0; layer < c.layers; ++layer)
    types.push_back(c.is_window(layer) ? "sliding_attention" : "full_attention");
  out["layer_types"] = types;
  out["sliding_window"] = c.window;
  double scalar = 1 / (c.attention_scale * c.attention_scale);
  // In every published model the scale was derived from an integer.
  double rounded = std::round(scalar);
  out["query_pre_attn_scalar"] = std::abs(scalar - rounded) <= 1e-9 * scalar
                                     ? json(static_cast<int64_t>(rounded))
                                     : json(scalar);
  out["attn_logit_softcapping"] = nullptr;
  out["final_logit_softcapping"] = nullptr;
}

}  // namespace

std::string config_json(const ModelConfig& c, DType dtype, const text::TokenizerSpec* tokenizer) {
  bool is_gemma = c.family == Family::kGemma3;
  std::string_view written = dtype == DType::kBF16  ? "bfloat16"
                             : dtype == DType::kF16 ? "float16"
                                                    : "float32";
  const bool is_mistral = !is_gemma && c.has_window_layers();  // a Llama with windows
  json out{{"architectures",
            {is_gemma     ? "Gemma3ForCausalLM"
             : is_mistral ? "MistralForCausalLM"
                          : "LlamaForCausalLM"}},
           {"model_type", is_gemma     ? "gemma3_text"
                          : is_mistral ? "mistral"
                                       : "llama"},
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
           {"attention_bias", c.attention_bias},
           {"attention_dropout", 0.0},
           {"use_cache", true}};
  if (is_mistral) out["sliding_window"] = c.window;
  if (!is_gemma) out["mlp_bias"] = c.mlp_bias;
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
