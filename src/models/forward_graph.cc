// SPDX-License-Identifier: Apache-2.0
// Adds inputs, attention and outputs around the families' layers, for training and inference
// graphs.
#include "models/forward_graph.h"

#include "base/error.h"
#include "models/decoder.h"
#include "models/inference_names.h"
#include "ops/build.h"
#include "ops/kv_cache.h"

namespace ridge::models {
namespace {

// Sequences of equal length, concatenated on the flat axis; or rows of equal length that documents
// share.
class WholeSequences final : public AttentionForm {
 public:
  explicit WholeSequences(int64_t sequence) : sequence_(sequence) {}

  void pack(ValueId positions) { positions_ = positions; }

  ValueId attend(Builder& b, ValueId q, ValueId k, ValueId v, const Options& o) override {
    std::vector<ValueId> inputs{q, k, v};
    if (positions_ != kNoValue) inputs.push_back(positions_);
    return b.call(
        "attention", inputs,
        {{"sequence", sequence_}, {"causal", true}, {"window", o.window}, {"scale", o.scale}});
  }

 private:
  int64_t sequence_;
  ValueId positions_ = kNoValue;
};

// Tokens of any mix of sequences. The keys and values of each layer are appended to its cache and
// read from there.
class CachedSequences final : public AttentionForm {
 public:
  CachedSequences(const CacheShape& cache, int64_t context) : cache_(cache), context_(context) {}

  void declare(Builder& b, ValueId positions, ValueId slots, const ModelConfig& config) {
    positions_ = positions;
    slots_ = slots;
    if (config.has_full_layers())
      full_table_ =
          b.input(kBlockTable, {DType::kI32, {cache_.slots, cache_.full.blocks_per_slot}});
    if (config.has_window_layers())
      window_table_ =
          b.input(kWindowBlockTable, {DType::kI32, {cache_.slots, cache_.window.blocks_per_slot}});
  }

  ValueId attend(Builder& b, ValueId q, ValueId k, ValueId v, const Options& o) override {
    const CacheBlocks& blocks = o.window > 0 ? cache_.window : cache_.full;
    ValueId table = o.window > 0 ? window_table_ : full_table_;
    Type type{cache_.dtype, {blocks.blocks, blocks.block_tokens, b.shape(k)[1], b.shape(k)[2]}};
    auto state = [&](const char* part, const Type& of) {
      return b.state(cache_state(o.layer, part), of);
    };
    std::vector<ValueId> appended{
        state("keys", type), state("values", type), k, v, positions_, slots_, table};
    if (ops::has_scales(type))
      for (const char* part : {"key_scales", "value_scales"})
        appended.push_back(state(part, ops::scales_of(type)));
    std::vector<ValueId> cache = b.call_all("kv_append", appended);
    std::vector<ValueId> read{q, cache[0], cache[1], positions_, slots_, table};
    read.insert(read.end(), cache.begin() + 2, cache.end());
    return b.call("cached_attention", read,
                  {{"window", o.window}, {"scale", o.scale}, {"context", context_}});
  }

 private:
  CacheShape cache_;
  int64_t context_;
  ValueId positions_ = kNoValue, slots_ = kNoValue, full_table_ = kNoValue,
          window_table_ = kNoValue;
};

StoredWeight as_named(const std::string& parameter, const Shape&) {
  return {parameter, DType::kF32};
}

void expect_tokens(int64_t tokens) {
  if (tokens > kMostTokens)
    throw memory_error("[tokens] expected at most {} in one run, got {}", kMostTokens, tokens);
}

class InferenceBuilder {
 public:
  InferenceBuilder(const ModelConfig& config,
                   const OpTable& ops,
                   const InferenceShape& shape,
                   const WeightLookup& weights)
      : shape_(shape),
        cached_(shape.cache, shape.context),
        whole_(shape.tokens),
        d_(config, ops, weights, shape.cached ? static_cast<AttentionForm&>(cached_) : whole_) {}

  ForwardGraph build() {
    bool decodes = shape_.task == InferenceTask::kDecode;
    ValueId positions = token_input(kPositions);
    tokens_ = samples(shape_.task) ? d_.b.state(kTokens, per_slot()) : kNoValue;
    ValueId ids = decodes ? tokens_ : token_input(kIds);
    if (shape_.cached) cached_.declare(d_.b, positions, token_input(kSlots), d_.config);
    const bool some = shape_.task == InferenceTask::kPrefill;
    ValueId x = d_.build_layers(ids, positions, some ? row_input(kRows) : kNoValue);
    auto scope = d_.b.scope("head");
    if (shape_.task == InferenceTask::kScore) return build_score(x);
    if (shape_.task == InferenceTask::kHidden) {
      d_.out.graph.outputs = {d_.build_last_norm(x)};
      return std::move(d_.out);
    }
    d_.out.logits = d_.build_head(x);
    if (samples(shape_.task)) build_sample(some ? row_input(kRowSlots) : kNoValue);
    d_.out.graph.outputs = {d_.out.logits};
    return std::move(d_.out);
  }

 private:
  Type per_slot() const { return {DType::kI32, {shape_.cache.slots}}; }
  ValueId token_input(std::string_view name) {
    return d_.b.input(bucket_input(name, shape_.tokens), {DType::kI32, {shape_.tokens}});
  }
  ValueId row_input(std::string_view name) {
    return d_.b.input(bucket_input(name, shape_.row_count()), {DType::kI32, {shape_.row_count()}});
  }

  ForwardGraph build_score(ValueId x) {
    d_.out.logits = d_.build_head(x);
    d_.out.loss = d_.b.call_all("softmax_cross_entropy", {d_.out.logits, token_input(kLabels)})[0];
    d_.out.graph.outputs = {d_.out.loss};
    return std::move(d_.out);
  }

  void build_sample(ValueId row_slots) {
    int64_t s = shape_.cache.slots;
    ValueId logits = d_.out.logits;
    if (const int64_t v = d_.config.sampled_vocabulary(); v < d_.config.vocabulary)
      logits =
          d_.b.call("slice", {logits}, {{"axis", int64_t{1}}, {"begin", int64_t{0}}, {"end", v}});
    std::vector<ValueId> inputs{logits,
                                tokens_,
                                d_.b.state(kRecent, {DType::kI32, {s, kRecentTokens}}),
                                d_.b.input(kNextPositions, per_slot()),
                                d_.b.input(kSampling, {DType::kF32, {s, kSamplingSettings}}),
                                d_.b.input(kSeeds, per_slot()),
                                d_.b.input(kBiased, {DType::kI32, {s, kMostBiases}}),
                                d_.b.input(kBiases, {DType::kF32, {s, kMostBiases}})};
    if (row_slots != kNoValue) inputs.push_back(row_slots);
    d_.b.call_all("sample", inputs);
  }

  const InferenceShape& shape_;
  CachedSequences cached_;
  WholeSequences whole_;
  Decoder d_;
  ValueId tokens_ = kNoValue;
};

}  // namespace

ForwardGraph build_training_graph(const ModelConfig& config,
                                  const OpTable& ops,
                                  int64_t batch,
                                  int64_t sequence,
                                  Packing packing) {
  validate(config);
  if (batch < 1 || sequence < 1)
    throw usage_error("[train] expected a batch size and a sequence length >= 1, got {} and {}",
                      batch, sequence);
  const int64_t count = checked_product(batch, sequence, "batch x sequence");
  expect_tokens(count);
  WholeSequences attention(sequence);
  Decoder d(config, ops, as_named, attention);
  Type tokens{DType::kI32, {count}};
  ValueId ids = d.b.input("ids", tokens), positions = d.b.input("positions", tokens);
  ValueId labels = d.b.input("labels", tokens);
  if (packing == Packing::kDocuments) attention.pack(positions);
  ValueId x = d.build_layers(ids, positions);
  auto scope = d.b.scope("head");
  d.out.logits = d.build_head(x);
  d.out.loss = d.b.call_all("softmax_cross_entropy", {d.out.logits, labels})[0];
  d.out.graph.outputs = {d.out.loss};
  return std::move(d.out);
}

ForwardGraph build_inference_graph(const ModelConfig& config,
                                   const OpTable& ops,
                                   const InferenceShape& shape,
                                   const WeightLookup& weights) {
  validate(config);
  expect_tokens(shape.tokens);
  RIDGE_CHECK(shape.row_count() > 0, "a graph without rows of logits");
  RIDGE_CHECK(shape.task != InferenceTask::kDecode || shape.tokens == shape.cache.slots,
              "decode of {} tokens in {} slots", shape.tokens, shape.cache.slots);
  return InferenceBuilder(config, ops, shape, weights).build();
}

}  // namespace ridge::models
