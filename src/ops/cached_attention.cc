// SPDX-License-Identifier: Apache-2.0
// cached_attention (composite): for each token softmax(scale q k^T) v over the keys and values that
// its slot's cache holds up to the token's position, or within a window. If kept whole (attribute
// `fused`), it never writes the N x C matrix of scores. `activations` = i16 allows kernels to round
// q, k, the weights and v to 16 bits where that is faster. Inference only: it has no gradient.
#include "ops/cached_attention.h"

#include <cmath>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {
constexpr size_t kKeyScales = 6, kValueScales = 7;  // inputs of caches of quants
}

CachedAttention cached_attention_shape(const Call& call) {
  constexpr const char* kOp = "cached_attention";
  const Type& q = call.inputs[0];
  expect_rank(kOp, q, 3, "q");
  expect_same(kOp, call.inputs[1], call.inputs[2], "the caches of keys and values");
  CachedAttention s{cache_extents(kOp, call, call.inputs[1], 3), q.shape[1],
                    call.attrs.integer("window"), call.attrs.integer("context"),
                    call.attrs.real("scale")};
  expect_cache(kOp, call, {.tokens = 0, .cache = 1, .plain = kKeyScales, .caches = 2});
  expect_shape(kOp, q, {s.cache.tokens, s.heads, s.cache.head_size}, "q");
  expect_head_groups(kOp, s.heads, s.cache.kv_heads);
  if (s.window < 0) throw usage_error("[{}] expected a window >= 0, got {}", kOp, s.window);
  if (!(s.scale > 0)) throw usage_error("[{}] expected a scale > 0, got {}", kOp, s.scale);
  if (s.context < 1) throw usage_error("[{}] expected a context >= 1, got {}", kOp, s.context);
  checked_product(checked_product(q.shape.elements(), s.columns(), kOp), 32, kOp);
  return s;
}

namespace {

void attend_token(const CachedAttention& s, Inputs64 inputs, int64_t n, std::vector<double>& o) {
  int64_t position = static_cast<int64_t>(inputs[3]->data[static_cast<size_t>(n)]);
  int64_t slot = static_cast<int64_t>(inputs[4]->data[static_cast<size_t>(n)]);
  int64_t e_count = s.cache.head_size, group = s.heads / s.cache.kv_heads;
  const CachedValues keys = cached_values(s.cache, inputs, 1, kKeyScales),
                     values = cached_values(s.cache, inputs, 2, kValueScales);
  for (int64_t h = 0; h < s.heads; ++h) {
    size_t row = static_cast<size_t>((n * s.heads + h) * e_count);
    std::vector<double> p;
    std::vector<int64_t> seen;  // rows of the cache
    for (int64_t cell = 0; cell < s.columns(); ++cell) {
      if (!s.sees(position, cell)) continue;
      seen.push_back(cache_row(s.cache, *inputs[5], slot, cell));
      double score = 0;
      for (int64_t e = 0; e < e_count; ++e)
        score += inputs[0]->data[row + static_cast<size_t>(e)] * keys.at(seen.back(), h / group, e);
      p.push_back(s.scale * score);
    }
    double top = p.empty() ? 0 : *std::max_element(p.begin(), p.end()), sum = 0;
    for (double& each : p) sum += each = std::exp(each - top);
    for (size_t j = 0; j < p.size(); ++j)
      for (int64_t e = 0; e < e_count; ++e)
        o[row + static_cast<size_t>(e)] += p[j] / sum * values.at(seen[j], h / group, e);
  }
}

struct CachedAttentionOp {
  static Op declaration() {
    return {.name = "cached_attention",
            .category = OpCategory::kAttention,
            .kind = OpKind::kComposite,
            .operands = {kKeyScales, kValueScales + 1},
            .attrs = {{"window", int64_t{0}, false},
                      {"scale", 0.0},
                      {"context", int64_t{0}},
                      {"fused", false, false},
                      {"batch_invariant", false, false},
                      {"activations", std::string("f32"), false}},
            .formula =
                "MACs = 2 N H C E for C keys that a token sees at most; 6 FLOPs a score besides"};
  }

  static std::vector<Type> infer(const Call& call) {
    cached_attention_shape(call);
    if (const std::string& to = call.attrs.text("activations"); to != "f32" && to != "i16")
      throw usage_error("[cached_attention] expected activations f32 or i16, got '{}'", to);
    return {call.inputs[0]};
  }

  // MACs of the scores and the mix; per score: scale, max, subtract, exp, sum, divide.
  static Work work(const Call& call) {
    CachedAttention s = cached_attention_shape(call);
    int64_t scores = s.cache.tokens * s.heads * s.keys();
    return products(2 * scores * s.cache.head_size) + arithmetic(6 * scores, 2 * scores);
  }
  static ModelWork model_work(const Call& call) { return {work(call), {}}; }

  // The most rows of the caches that tokens in any slots may attend to: in a slot, each token after
  // the first attends to one more row.
  static std::optional<Traffic> traffic(const Call& call) {
    CachedAttention s = cached_attention_shape(call);
    int64_t slots = std::min(s.cache.tokens, s.cache.slots);
    int64_t rows = std::min(slots * s.columns(), slots * (s.keys() - 1) + s.cache.tokens);
    Traffic traffic = whole_operands(call);
    traffic.read_bytes[1] = traffic.read_bytes[2] =
        storage_bytes(call.inputs[1].dtype, rows * s.cache.kv_heads * s.cache.head_size);
    for (size_t i = kKeyScales; i < call.inputs.size(); ++i)
      traffic.read_bytes[i] = storage_bytes(call.inputs[i].dtype, rows * s.cache.kv_heads);
    return traffic;
  }

  static std::vector<ValueId> expand(Builder& b, const Node& node) {
    CallTypes types(b.graph(), node);
    CachedAttention s = cached_attention_shape(types.call());
    const std::vector<ValueId>& in = node.inputs;
    // The cells that x is multiplied with: the keys or the values, and their scales.
    auto with_cells = [&](ValueId x, size_t cache, size_t scales) {
      std::vector<ValueId> operands{x, in[cache], in[3], in[4], in[5]};
      if (scales < in.size()) operands.push_back(in[scales]);
      return operands;
    };
    ValueId scores =
        b.call("cached_scores", with_cells(in[0], 1, kKeyScales), {{"columns", s.columns()}});
    ValueId hidden = b.call("cached_mask", {scale(b, scores, s.scale), in[3]},
                            {{"window", s.window}, {"ring", s.cache.ring()}});
    return {b.call("cached_mix", with_cells(b.call("softmax", {hidden}), 2, kValueScales))};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    CachedAttention s = cached_attention_shape(call);
    std::fill(outputs[0].data.begin(), outputs[0].data.end(), 0.0);
    for (int64_t n = 0; n < s.cache.tokens; ++n) attend_token(s, inputs, n, outputs[0].data);
  }

  static std::vector<Case> cases() {
    struct CachedAttentionSample {
      int64_t tokens, slots, per_slot, block, heads, kv_heads, head_size, window, context;
    };
    std::vector<Case> cases;
    for (CachedAttentionSample r : {CachedAttentionSample{1, 1, 1, 1, 1, 1, 8, 0, 1},
                                    CachedAttentionSample{5, 1, 1, 40, 4, 2, 8, 0, 32},
                                    CachedAttentionSample{9, 2, 1, 24, 3, 3, 16, 5, 64},
                                    CachedAttentionSample{7, 3, 8, 4, 6, 1, 24, 0, 32},
                                    CachedAttentionSample{6, 2, 5, 4, 8, 2, 8, 7, 100},
                                    CachedAttentionSample{3, 1, 1, 200, 9, 3, 64, 0, 200},
                                    CachedAttentionSample{70, 3, 1, 90, 2, 1, 24, 30, 150},
                                    CachedAttentionSample{40, 1, 5, 16, 1, 1, 136, 0, 80},
                                    // Sequences with one token among some with two.
                                    CachedAttentionSample{80, 50, 2, 16, 4, 2, 64, 0, 30},
                                    CachedAttentionSample{80, 50, 2, 16, 2, 2, 24, 20, 30}}) {
      CaseInput cache = inert(f32({r.slots * r.per_slot, r.block, r.kv_heads, r.head_size}));
      cases.push_back({fmt::format("n{}s{}b{}h{}k{}e{}w{}", r.tokens, r.slots, r.block, r.heads,
                                   r.kv_heads, r.head_size, r.window),
                       {inert(f32({r.tokens, r.heads, r.head_size})), cache, cache,
                        sample_positions(r.tokens, r.context), sample_slots(r.tokens, r.slots),
                        sample_block_table(r.slots, r.per_slot)},
                       {{"window", r.window}, {"context", r.context}, {"scale", 0.35}}});
    }
    Case invariant = cases[6];
    invariant.name += "_batch_invariant";
    invariant.attrs.set("batch_invariant", true);
    cases.push_back(invariant);
    for (size_t i : {size_t{6}, size_t{7}}) {
      Case rounded = cases[i];
      rounded.name += "_i16";
      rounded.attrs.set("activations", std::string("i16"));
      cases.push_back(rounded);
    }
    return with_narrow_caches(std::move(cases), {1, 2});
  }
};

}  // namespace

const Op& cached_attention_op() { return op_from<CachedAttentionOp>(); }

}  // namespace ridge::ops
