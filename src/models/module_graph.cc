// SPDX-License-Identifier: Apache-2.0
// Puts inputs before and outputs behind a part of a decoder.
#include "models/module_graph.h"

#include <array>

#include "base/error.h"
#include "models/decoder.h"
#include "models/inference_names.h"
#include "ops/build.h"

namespace ridge::models {
namespace {

constexpr std::array kNames = {"mlp", "attention", "norm", "layer", "embedding", "head"};

// Whole sequences, or the tokens of each sequence after those in a cache that has one block a slot.
class ModuleAttention final : public AttentionForm {
 public:
  explicit ModuleAttention(const ModuleShape& shape) : shape_(shape) {}

  void set_positions(ValueId positions) { positions_ = positions; }

  ValueId attend(Builder& b, ValueId q, ValueId k, ValueId v, const Options& o) override {
    if (shape_.context == 0)
      return b.call("attention", {q, k, v},
                    {{"sequence", shape_.tokens},
                     {"causal", true},
                     {"window", o.window},
                     {"scale", o.scale}});
    const int64_t n = b.shape(q)[0], slots = shape_.batch;
    const int64_t ring =
        o.window > 0 ? std::min(o.window + shape_.tokens - 1, shape_.context) : shape_.context;
    const Type cells{b.type(k).dtype, {slots, ring, b.shape(k)[1], b.shape(k)[2]}};
    ValueId slot = b.input(std::string(kSlots), {DType::kI32, {n}});
    ValueId table = b.input(kBlockTable, {DType::kI32, {slots, 1}});
    std::vector<ValueId> cache =
        b.call_all("kv_append",
                   {b.state(cache_state(o.layer, "keys"), cells),
                    b.state(cache_state(o.layer, "values"), cells), k, v, positions_, slot, table});
    return b.call("cached_attention", {q, cache[0], cache[1], positions_, slot, table},
                  {{"window", o.window}, {"scale", o.scale}, {"context", shape_.context}});
  }

 private:
  const ModuleShape& shape_;
  ValueId positions_ = kNoValue;
};

class ModuleBuilder {
 public:
  ModuleBuilder(const ModelConfig& config,
                const OpTable& ops,
                const ModuleShape& shape,
                const WeightLookup& weights)
      : shape_(shape), attention_(shape), d_(config, ops, weights, attention_) {}

  ForwardGraph build(Module module) {
    auto scope = d_.b.scope(name(module));
    d_.out.graph.outputs = {build_output(module)};
    return std::move(d_.out);
  }

 private:
  int64_t tokens() const { return shape_.batch * shape_.tokens; }
  std::string prefix() const { return fmt::format("model.layers.{}.", shape_.layer); }
  ValueId x(int64_t rows) {
    return d_.b.input("x", {shape_.activations, {rows, d_.config.hidden}});
  }

  ValueId build_output(Module module) {
    switch (module) {
      case Module::kMlp:
        return d_.gated_mlp(x(tokens()), prefix());
      case Module::kAttention:
        return build_attention();
      case Module::kNorm:
        return d_.norm(x(tokens()), prefix() + "input_layernorm.weight");
      case Module::kLayer: {
        ValueId input = x(tokens());
        declare_positions();
        return d_.build_layer(input, shape_.layer);
      }
      case Module::kEmbedding:
        return d_.build_embedding(d_.b.input(std::string(kIds), {DType::kI32, {tokens()}}));
      case Module::kHead:
        return d_.build_head(x(shape_.is_last_row ? shape_.batch : tokens()));
    }
    throw InternalError("no such module");
  }

  void declare_positions() {
    ValueId positions = d_.b.input(std::string(kPositions), {DType::kI32, {tokens()}});
    attention_.set_positions(positions);
    d_.build_rotation(positions, shape_.layer);
  }

  ValueId build_attention() {
    ValueId input = x(tokens());
    declare_positions();
    return d_.attention(input, prefix(), shape_.layer);
  }

  const ModuleShape& shape_;
  ModuleAttention attention_;
  Decoder d_;
};

}  // namespace

std::string_view name(Module module) { return kNames[static_cast<size_t>(module)]; }

std::optional<Module> parse_module(std::string_view text) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == text) return static_cast<Module>(i);
  return std::nullopt;
}

ForwardGraph build_module(const ModelConfig& config,
                          const OpTable& ops,
                          Module module,
                          const ModuleShape& shape,
                          const WeightLookup& weights) {
  validate(config);
  const int64_t count = checked_product(shape.batch, shape.tokens, "batch x tokens");
  if (count < 1 || count > kMostTokens)
    throw memory_error("[tokens] expected 1 to {} in one run, got {}", kMostTokens, count);
  if (shape.layer < 0 || shape.layer >= config.layers)
    throw usage_error("[layer] expected 0 to {}, got {}", config.layers - 1, shape.layer);
  return ModuleBuilder(config, ops, shape, weights).build(module);
}

}  // namespace ridge::models
