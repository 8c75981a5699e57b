// SPDX-License-Identifier: Apache-2.0
// Building the Llama graph. Weight names are those of Hugging Face checkpoints.
#include "models/llama.h"

#include <cmath>

#include "base/error.h"
#include "ops/build.h"

namespace ridge::models {
namespace {

// Holds what all layers share while a graph is built.
class LlamaBuilder {
 public:
  LlamaBuilder(const ModelConfig& config, const OpTable& ops, int64_t batch, int64_t sequence)
      : c_(config), n_(checked_product(batch, sequence, "batch x sequence")), t_(sequence), b_(out_.graph, ops),
        load_(out_.load.graph, ops) {}

  ForwardGraph build() {
    ValueId ids = b_.input("ids", {DType::kI32, {n_}});
    ValueId positions = b_.input("positions", {DType::kI32, {n_}});
    ValueId labels = b_.input("labels", {DType::kI32, {n_}});
    ValueId table = weight("model.embed_tokens.weight", {c_.vocabulary, c_.hidden});
    ValueId x;
    {
      auto scope = b_.scope("embedding");
      x = b_.call("embedding", {table, ids});
      build_rope_table(positions);
    }
    for (int64_t layer = 0; layer < c_.layers; ++layer) x = build_layer(x, layer);
    auto scope = b_.scope("head");
    x = norm(x, "model.norm.weight");
    ValueId head = c_.tied_head ? table : weight("lm_head.weight", {c_.vocabulary, c_.hidden});
    out_.logits = ops::matmul(b_, "nd,vd->nv", x, head);
    out_.loss = b_.call_all("softmax_cross_entropy", {out_.logits, labels})[0];
    out_.graph.outputs = {out_.loss};
    return std::move(out_);
  }

 private:
  ValueId weight(const std::string& name, Shape shape) {
    Type type{DType::kF32, shape};
    ValueId value = b_.parameter(name, type);
    out_.parameters.push_back(value);
    out_.load.stored[name] = load_.input(name, type);
    return value;
  }

  ValueId norm(ValueId x, const std::string& weight_name) {
    return b_.call_all("rms_norm", {x, weight(weight_name, {c_.hidden})}, {{"eps", c_.norm_eps}})[0];
  }

  void build_rope_table(ValueId positions) {
    const RopeScaling& s = c_.rope_scaling;
    std::vector<ValueId> table = b_.call_all(
        "rope_table", {positions},
        {{"head_size", c_.head_size}, {"theta", c_.rope_theta}, {"scaling", s.kind}, {"factor", s.factor},
         {"original_context", s.original_context}, {"low_frequency_factor", s.low_frequency_factor},
         {"high_frequency_factor", s.high_frequency_factor}});
    cos_ = table[0];
    sin_ = table[1];
  }

  ValueId rotate(ValueId x) { return b_.call("rope", {x, cos_, sin_}, {{"interleaved", c_.rope_interleaved}}); }

  // [N,D] x [out,D] -> [N,out], plus a bias [out] where the model has one.
  ValueId project(ValueId x, const std::string& name, int64_t out, bool bias) {
    ValueId product = ops::matmul(b_, "nd,fd->nf", x, weight(name + ".weight", {out, b_.shape(x)[1]}));
    if (!bias) return product;
    return ops::add(b_, product, ops::broadcast_rows(b_, weight(name + ".bias", {out}), {n_, out}));
  }

  ValueId build_attention(ValueId x, const std::string& prefix) {
    auto scope = b_.scope("attention");
    ValueId normed = norm(x, prefix + "input_layernorm.weight");
    auto heads = [&](const char* name, int64_t count) {
      ValueId projected = project(normed, prefix + "self_attn." + name, count * c_.head_size, c_.attention_bias);
      return ops::reshape(b_, projected, {n_, count, c_.head_size});
    };
    ValueId q = heads("q_proj", c_.heads);
    ValueId k = heads("k_proj", c_.kv_heads);
    ValueId v = heads("v_proj", c_.kv_heads);
    ValueId mixed = b_.call("attention", {rotate(q), rotate(k), v},
                            {{"sequence", t_},
                             {"causal", true},
                             {"window", int64_t{0}},
                             {"scale", 1.0 / std::sqrt(static_cast<double>(c_.head_size))}});
    ValueId flat = ops::reshape(b_, mixed, {n_, c_.heads * c_.head_size});
    return ops::add(b_, x, project(flat, prefix + "self_attn.o_proj", c_.hidden, c_.attention_bias));
  }

  ValueId build_mlp(ValueId x, const std::string& prefix) {
    auto scope = b_.scope("mlp");
    ValueId normed = norm(x, prefix + "post_attention_layernorm.weight");
    ValueId gate = project(normed, prefix + "mlp.gate_proj", c_.feed_forward, c_.mlp_bias);
    ValueId up = project(normed, prefix + "mlp.up_proj", c_.feed_forward, c_.mlp_bias);
    ValueId mixed = b_.call("glu", {gate, up}, {{"activation", std::string("silu")}});
    return ops::add(b_, x, project(mixed, prefix + "mlp.down_proj", c_.hidden, c_.mlp_bias));
  }

  ValueId build_layer(ValueId x, int64_t layer) {
    auto scope = b_.scope(fmt::format("layer.{}", layer));
    std::string prefix = fmt::format("model.layers.{}.", layer);
    return build_mlp(build_attention(x, prefix), prefix);
  }

  const ModelConfig& c_;
  int64_t n_, t_;
  ForwardGraph out_;
  Builder b_;
  Builder load_;
  ValueId cos_ = kNoValue, sin_ = kNoValue;
};

}  // namespace

ForwardGraph build_training_graph(const ModelConfig& config, const OpTable& ops, int64_t batch, int64_t sequence) {
  validate(config);
  if (config.family != Family::kLlama)
    throw usage_error("[train] expected a Llama configuration: other families are not trained yet");
  if (batch < 1 || sequence < 1)
    throw usage_error("[train] expected a batch size and a sequence length >= 1, got {} and {}", batch, sequence);
  return LlamaBuilder(config, ops, batch, sequence).build();
}

}  // namespace ridge::models
