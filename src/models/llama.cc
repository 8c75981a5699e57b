// SPDX-License-Identifier: Apache-2.0
// A layer of Llama, Mistral and Qwen: RMSNorm before each half, grouped-query attention with RoPE,
// SwiGLU. Qwen 2 has biases on q, k and v, Qwen 3 a norm on every head of q and k.
#include <fmt/format.h>

#include "models/decoder.h"
#include "ops/build.h"

namespace ridge::models {
namespace {

ValueId build_attention(Decoder& d, ValueId x, const std::string& prefix, int64_t layer) {
  auto scope = d.b.scope("attention");
  ValueId made = d.attention(d.norm(x, prefix + "input_layernorm.weight"), prefix, layer);
  return ops::add(d.b, d.gather_last_tokens(x, layer), made);
}

ValueId build_mlp(Decoder& d, ValueId x, const std::string& prefix) {
  auto scope = d.b.scope("mlp");
  ValueId normed = d.norm(x, prefix + "post_attention_layernorm.weight");
  return ops::add(d.b, x, d.gated_mlp(normed, prefix));
}

}  // namespace

ValueId build_llama_layer(Decoder& d, ValueId x, int64_t layer) {
  std::string prefix = fmt::format("model.layers.{}.", layer);
  return build_mlp(d, build_attention(d, x, prefix, layer), prefix);
}

}  // namespace ridge::models
