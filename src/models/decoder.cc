// SPDX-License-Identifier: Apache-2.0
// Builds graphs from the shared parts. Weight names are those of Hugging Face checkpoints.
#include "models/decoder.h"

#include <cmath>

#include "base/error.h"
#include "ops/build.h"

namespace ridge::models {
namespace {

// Matrix products read these types as stored. Other types in a file are converted to fp32 when they
// are loaded.
bool is_read_as_stored(DType dtype) {
  return is_block(dtype) || dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
}

}  // namespace

ValueId Decoder::parameter(const std::string& name, const Type& type, const StoredWeight& stored) {
  if (stored.dtype != type.dtype && !is_float(stored.dtype))
    throw file_error("[weights] expected '{}' in a floating-point type, found {}", stored.name,
                     ridge::name(stored.dtype));
  ValueId value = b.parameter(name, type);
  ValueId file_value = load_.input(stored.name, {stored.dtype, type.shape});
  out.load.stored[name] = ops::cast(load_, file_value, type.dtype);
  return value;
}

ValueId Decoder::matrix(const std::string& name, Shape shape, ValueId* x) {
  StoredWeight stored = lookup_(name, shape);
  if (!stored.order.empty()) orders_.apply(stored, x, b, load_, out.load);
  DType dtype = is_read_as_stored(stored.dtype) ? stored.dtype : DType::kF32;
  return parameter(name, {dtype, std::move(shape)}, stored);
}

ValueId Decoder::vector(const std::string& name, int64_t extent) {
  return parameter(name, {DType::kF32, {extent}}, lookup_(name, {extent}));
}

ValueId Decoder::norm(ValueId x, const std::string& name) {
  const Shape shape = b.shape(x);
  ValueId rows = ops::reshape(b, x, {shape.elements() / shape.back(), shape.back()});
  ValueId normed = b.call_all("rms_norm", {rows, vector(name, shape.back())},
                              {{"eps", config.norm_eps}, {"offset", config.norm_offset}})[0];
  return ops::reshape(b, normed, shape);
}

ValueId Decoder::project(ValueId x, const std::string& name, int64_t extent, bool bias) {
  const ValueId weight = matrix(name + ".weight", {extent, b.shape(x)[1]}, &x);
  ValueId product = ops::matmul(b, "nd,fd->nf", x, weight);
  if (!bias) return product;
  return ops::add(b, product,
                  ops::broadcast_rows(b, vector(name + ".bias", extent), b.shape(product)));
}

ValueId Decoder::project_heads(ValueId x, const std::string& name, int64_t heads) {
  ValueId projected = project(x, name, heads * config.head_size, config.qkv_bias);
  return ops::reshape(b, projected, {b.shape(x)[0], heads, config.head_size});
}

Decoder::Qkv Decoder::project_qkv(ValueId normed, const std::string& prefix) {
  return {project_heads(normed, prefix + "self_attn.q_proj", config.heads),
          project_heads(normed, prefix + "self_attn.k_proj", config.kv_heads),
          project_heads(normed, prefix + "self_attn.v_proj", config.kv_heads)};
}

Decoder::Rotation Decoder::rotation(ValueId positions, double theta, const RopeScaling& s) {
  std::vector<ValueId> table = b.call_all("rope_table", {positions},
                                          {{"head_size", config.head_size},
                                           {"theta", theta},
                                           {"scaling", s.kind},
                                           {"factor", s.factor},
                                           {"original_context", s.original_context},
                                           {"low_frequency_factor", s.low_frequency_factor},
                                           {"high_frequency_factor", s.high_frequency_factor}});
  return {table[0], table[1]};
}

ValueId Decoder::rotate(ValueId x, const std::string& norm_name, int64_t layer) {
  if (config.has_head_norms()) x = norm(x, norm_name);
  const Rotation& by = config.is_window(layer) ? window_ : full_;
  return b.call("rope", {x, by.cos, by.sin}, {{"interleaved", config.rope_interleaved}});
}

ValueId Decoder::attend(ValueId q, ValueId k, ValueId v, int64_t layer) {
  double scale = config.attention_scale;
  if (scale == 0) scale = 1.0 / std::sqrt(static_cast<double>(config.head_size));
  ValueId mixed =
      attention_.attend(b, q, k, v, {layer, config.is_window(layer) ? config.window : 0, scale});
  return ops::reshape(b, mixed, {b.shape(q)[0], config.heads * config.head_size});
}

ValueId Decoder::attention(ValueId normed, const std::string& prefix, int64_t layer) {
  auto [q, k, v] = project_qkv(normed, prefix);
  ValueId rotated_q = rotate(q, prefix + "self_attn.q_norm.weight", layer);
  ValueId rotated_k = rotate(k, prefix + "self_attn.k_norm.weight", layer);
  ValueId mixed = gather_last_tokens(attend(rotated_q, rotated_k, v, layer), layer);
  return project(mixed, prefix + "self_attn.o_proj", config.hidden, config.output_bias);
}

ValueId Decoder::gather_last_tokens(ValueId x, int64_t layer) {
  if (rows_ == kNoValue || layer + 1 != config.layers) return x;
  return b.call("embedding", {x, rows_});
}

ValueId Decoder::gated_mlp(ValueId x, const std::string& prefix) {
  ValueId gate = project(x, prefix + "mlp.gate_proj", config.feed_forward, config.mlp_bias);
  ValueId up = project(x, prefix + "mlp.up_proj", config.feed_forward, config.mlp_bias);
  const char* activation = config.family == Family::kGemma3 ? "gelu_tanh" : "silu";
  ValueId mixed = b.call("glu", {gate, up}, {{"activation", std::string(activation)}});
  return project(mixed, prefix + "mlp.down_proj", config.hidden, config.mlp_bias);
}

ValueId Decoder::table() {
  if (table_ == kNoValue)
    table_ = matrix("model.embed_tokens.weight", {config.vocabulary, config.hidden});
  return table_;
}

ValueId Decoder::build_embedding(ValueId ids) {
  bool is_f32 = b.type(table()).dtype == DType::kF32;
  Attrs attrs;
  if (!is_f32) attrs.set("dtype", std::string("f32"));
  ValueId x = b.call("embedding", {table(), ids}, attrs);
  return config.family == Family::kGemma3
             ? ops::scale(b, x, std::sqrt(static_cast<double>(config.hidden)))
             : x;
}

void Decoder::build_rotation(ValueId positions, int64_t layer) {
  if (config.is_window(layer))
    window_ = rotation(positions, config.window_rope_theta, {});
  else
    full_ = rotation(positions, config.rope_theta, config.rope_scaling);
}

ValueId Decoder::build_layer(ValueId x, int64_t layer) {
  return config.family == Family::kGemma3 ? build_gemma3_layer(*this, x, layer)
                                          : build_llama_layer(*this, x, layer);
}

ValueId Decoder::build_layers(ValueId ids, ValueId positions, ValueId rows) {
  rows_ = rows;
  ValueId x;
  {
    auto scope = b.scope("embedding");
    x = build_embedding(ids);
    if (config.has_full_layers())
      full_ = rotation(positions, config.rope_theta, config.rope_scaling);
    if (config.has_window_layers()) window_ = rotation(positions, config.window_rope_theta, {});
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    auto scope = b.scope(fmt::format("layer.{}", layer));
    x = build_layer(x, layer);
  }
  return x;
}

ValueId Decoder::build_last_norm(ValueId x) { return norm(x, "model.norm.weight"); }

ValueId Decoder::build_head(ValueId x) {
  x = build_last_norm(x);
  const Shape shape{config.vocabulary, config.hidden};
  ValueId head = config.tied_head ? table() : matrix("lm_head.weight", shape, &x);
  const ValueId logits = ops::matmul(b, "nd,vd->nv", x, head);
  return config.logit_cap > 0 ? ops::soft_cap(b, logits, config.logit_cap) : logits;
}

}  // namespace ridge::models
