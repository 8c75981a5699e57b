// SPDX-License-Identifier: Apache-2.0
// A layer of Gemma 3: norms before and after each half and on every head of q and k, window and
// full layers with different rotations, a gated GELU. The scale of the embedding and the (1 + w) of
// norms are in decoder.cc.
#include <fmt/format.h>

#include "models/decoder.h"
#include "ops/build.h"

namespace ridge::models {
namespace {

ValueId build_attention(Decoder& d, ValueId x, const std::string& prefix, int64_t layer) {
  auto scope = d.b.scope("attention");
  ValueId made = d.attention(d.norm(x, prefix + "input_layernorm.weight"), prefix, layer);
  made = d.norm(made, prefix + "post_attention_layernorm.weight");
  return ops::add(d.b, d.gather_last_tokens(x, layer), made);
}

ValueId build_mlp(Decoder& d, ValueId x, const std::string& prefix) {
  auto scope = d.b.scope("mlp");
  ValueId normed = d.norm(x, prefix + "pre_feedforward_layernorm.weight");
  ValueId made = d.gated_mlp(normed, prefix);
  return ops::add(d.b, x, d.norm(made, prefix + "post_feedforward_layernorm.weight"));
}

}  // namespace

ValueId build_gemma3_layer(Decoder& d, ValueId x, int64_t layer) {
  std::string prefix = fmt::format("model.layers.{}.", layer);
  return build_mlp(d, build_attention(d, x, prefix, layer), prefix);
}

}  // namespace ridge::models
