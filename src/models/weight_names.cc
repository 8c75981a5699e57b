// SPDX-License-Identifier: Apache-2.0
// The table of GGUF's names.
#include "models/weight_names.h"

#include <array>

#include "base/error.h"

namespace ridge::models {
namespace {

struct Names {
  std::string_view parameter, gguf;
};

constexpr std::array kOutside = {
    Names{"model.embed_tokens", "token_embd"},
    Names{"model.norm", "output_norm"},
    Names{"lm_head", "output"},
};

constexpr std::array kInLayer = {
    Names{"input_layernorm", "attn_norm"},
    Names{"self_attn.q_proj", "attn_q"},
    Names{"self_attn.k_proj", "attn_k"},
    Names{"self_attn.v_proj", "attn_v"},
    Names{"self_attn.o_proj", "attn_output"},
    Names{"self_attn.q_norm", "attn_q_norm"},
    Names{"self_attn.k_norm", "attn_k_norm"},
    Names{"mlp.gate_proj", "ffn_gate"},
    Names{"mlp.up_proj", "ffn_up"},
    Names{"mlp.down_proj", "ffn_down"},
    Names{"pre_feedforward_layernorm", "ffn_norm"},
    Names{"post_feedforward_layernorm", "post_ffw_norm"},
};

constexpr std::string_view kLayers = "model.layers.";

std::string_view in_layer(Family family, std::string_view part) {
  // One name in Hugging Face's files for two places in the layer.
  if (part == "post_attention_layernorm")
    return family == Family::kGemma3 ? "post_attention_norm" : "ffn_norm";
  for (const Names& names : kInLayer)
    if (names.parameter == part) return names.gguf;
  return {};
}

}  // namespace

std::string gguf_name(Family family, std::string_view parameter) {
  size_t dot = parameter.rfind('.');
  RIDGE_CHECK(dot != std::string_view::npos, "a parameter named '{}'", parameter);
  std::string_view stem = parameter.substr(0, dot), suffix = parameter.substr(dot);
  if (!stem.starts_with(kLayers)) {
    for (const Names& names : kOutside)
      if (names.parameter == stem) return std::string(names.gguf) + std::string(suffix);
  } else {
    std::string_view rest = stem.substr(kLayers.size());
    size_t end = rest.find('.');
    std::string_view name =
        end == std::string_view::npos ? std::string_view() : in_layer(family, rest.substr(end + 1));
    if (!name.empty()) return fmt::format("blk.{}.{}{}", rest.substr(0, end), name, suffix);
  }
  RIDGE_CHECK(false, "GGUF has no name for '{}'", parameter);
}

}  // namespace ridge::models
