// SPDX-License-Identifier: Apache-2.0
// The ops that cached_attention expands to, besides scale and softmax. Each is one kernel, with the
// N x C matrix of scores in memory: cached_scores (q times the keys in the cells of its token's
// slot), cached_mask (hides the cells that a token does not attend to) and cached_mix
// (probabilities times values). cached_softmax, made by the pass fuse_softmax, is the scale, the
// mask and the softmax between them in one kernel. The C columns are the first C cells of a slot's
// ring.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/cached_attention.h"
#include "ops/op_from.h"

namespace ridge::ops {
namespace {

// A product of each token's heads with the keys or values in the first C cells of its slot.
struct CellProduct {
  CacheExtents cache;
  int64_t heads = 0, columns = 0;
  Type out = {};
};

constexpr size_t kScales = 5;  // the input of a cache of quants

// Inputs: q [N,H,E] for cached_scores or probabilities [N,H,C] for cached_mix; keys or values,
// positions, slots, table; the scales of keys or values if these are quants (kv_cache.h).
// cached_scores has C as an attribute.
CellProduct cell_product(const Call& call) {
  const bool mixes = !call.attrs.has("columns");
  const char* op = mixes ? "cached_mix" : "cached_scores";
  const char* what = mixes ? "the probabilities" : "q";
  const Type& x = call.inputs[0];
  CellProduct p{cache_extents(op, call, call.inputs[1], 2)};
  expect_rank(op, x, 3, what);
  p.heads = x.shape[1];
  p.columns = mixes ? x.shape[2] : call.attrs.integer("columns");
  const int64_t tokens = p.cache.tokens, head_size = p.cache.head_size;
  expect_shape(op, x, {tokens, p.heads, mixes ? p.columns : head_size}, what);
  expect_cache(op, call, {.tokens = 0, .cache = 1, .plain = kScales, .caches = 1});
  expect_head_groups(op, p.heads, p.cache.kv_heads);
  if (p.columns < 1 || p.columns > p.cache.ring())
    throw usage_error("[{}] expected 1 to {} columns, got {}", op, p.cache.ring(), p.columns);
  checked_product(checked_product(tokens * p.heads, p.columns, op), 32 * head_size, op);
  p.out = {x.dtype, {tokens, p.heads, mixes ? head_size : p.columns}};
  return p;
}

// Calls visit(row of q or o, row of the cache, KV head, column) for each token that is not padding.
template <typename Visit>
void visit_cells(const CellProduct& p, Inputs64 in, const Visit& visit) {
  const int64_t kv_heads = p.cache.kv_heads;
  for (int64_t n = 0; n < p.cache.tokens; ++n) {
    if (in[2]->data[static_cast<size_t>(n)] < 0) continue;
    int64_t slot = static_cast<int64_t>(in[3]->data[static_cast<size_t>(n)]);
    for (int64_t h = 0; h < p.heads; ++h)
      for (int64_t c = 0; c < p.columns; ++c)
        visit(n * p.heads + h, cache_row(p.cache, *in[4], slot, c), h / (p.heads / kv_heads), c);
  }
}

// Shared by cached_scores and cached_mix.
struct MultipliesCells {
  static Op declaration(std::string name) {
    return {.name = std::move(name),
            .category = OpCategory::kAttention,
            .operands = {kScales, kScales + 1},
            .formula = "MACs = N H C E"};
  }

  static std::vector<Type> infer(const Call& call) { return {cell_product(call).out}; }

  static Work work(const Call& call) {
    CellProduct p = cell_product(call);
    return products(p.cache.tokens * p.heads * p.columns * p.cache.head_size);
  }

  // Counts the first C cells of each slot that a token may belong to.
  static std::optional<Traffic> traffic(const Call& call) {
    CellProduct p = cell_product(call);
    const CacheExtents& e = p.cache;
    int64_t rows = std::min(e.tokens, e.slots) * p.columns;
    Traffic traffic = whole_operands(call);
    traffic.read_bytes[1] = storage_bytes(call.inputs[1].dtype, rows * e.kv_heads * e.head_size);
    if (has_scales(call.inputs[1]))
      traffic.read_bytes[kScales] = storage_bytes(DType::kF32, rows * e.kv_heads);
    return traffic;
  }

  // Calls add(index of an element of q or o, index of its score, the element of the cache that
  // both belong to), which changes the outputs, zero at first.
  template <typename Add>
  static void fill(const Call& call, Inputs64 in, Outputs64 out, const Add& add) {
    const CellProduct p = cell_product(call);
    const CachedValues cells = cached_values(p.cache, in, 1, kScales);
    std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
    visit_cells(p, in, [&](int64_t row, int64_t cached, int64_t head, int64_t c) {
      for (int64_t i = 0, e = p.cache.head_size; i < e; ++i)
        add(static_cast<size_t>(row * e + i), static_cast<size_t>(row * p.columns + c),
            cells.at(cached, head, i));
    });
  }

  static std::vector<Case> cases(bool mix) {
    struct CachedPrimitivesSample {
      int64_t tokens, slots, per_slot, block, heads, kv_heads, head_size, columns;
    };
    std::vector<Case> cases;
    for (const CachedPrimitivesSample& r : {CachedPrimitivesSample{1, 1, 1, 1, 1, 1, 1, 1},
                                            CachedPrimitivesSample{7, 2, 3, 4, 6, 2, 9, 10},
                                            CachedPrimitivesSample{5, 1, 1, 70, 4, 1, 16, 70}}) {
      cases.push_back(
          {fmt::format("n{}s{}b{}h{}c{}", r.tokens, r.slots, r.block, r.heads, r.columns),
           {inert(f32({r.tokens, r.heads, mix ? r.columns : r.head_size})),
            inert(f32({r.slots * r.per_slot, r.block, r.kv_heads, r.head_size})),
            sample_positions(r.tokens, r.columns), sample_slots(r.tokens, r.slots),
            sample_block_table(r.slots, r.per_slot)},
           {}});
      if (!mix) cases.back().attrs.set("columns", r.columns);
    }
    return with_narrow_caches(std::move(cases), {1});
  }
};

struct CachedScoresOp : MultipliesCells {
  static Op declaration() {
    Op op = MultipliesCells::declaration("cached_scores");
    op.attrs = {{"columns", int64_t{0}}};
    return op;
  }

  static void reference(const Call& call, Inputs64 in, Outputs64 out) {
    fill(call, in, out, [&](size_t element, size_t score, double cell) {
      out[0].data[score] += in[0]->data[element] * cell;
    });
  }

  static std::vector<Case> cases() { return MultipliesCells::cases(false); }
};

struct CachedMixOp : MultipliesCells {
  static Op declaration() { return MultipliesCells::declaration("cached_mix"); }

  static void reference(const Call& call, Inputs64 in, Outputs64 out) {
    fill(call, in, out, [&](size_t element, size_t score, double cell) {
      out[0].data[element] += in[0]->data[score] * cell;
    });
  }

  static std::vector<Case> cases() { return MultipliesCells::cases(true); }
};

// The cells that a token at a position attends to.
struct CellMask {
  int64_t window, ring;
  bool sees(int64_t position, int64_t cell) const {
    const int64_t key = position_in_cell(position, cell, ring);
    return position >= 0 && key >= 0 && (window == 0 || key > position - window);
  }
};

// Checks scores [N,H,C] and positions.
CellMask cell_mask(const char* op, const Call& call) {
  expect_float(op, call.inputs[0], "the scores");
  expect_rank(op, call.inputs[0], 3, "the scores");
  expect_type(op, call.inputs[1], i32({call.inputs[0].shape[0]}), "positions");
  const CellMask mask{call.attrs.integer("window"), call.attrs.integer("ring")};
  if (mask.window < 0 || mask.ring < 1)
    throw usage_error("[{}] expected a window >= 0 and a ring >= 1, got {} and {}", op, mask.window,
                      mask.ring);
  if (const int64_t columns = call.inputs[0].shape[2]; columns > mask.ring)
    throw usage_error("[{}] expected at most {} columns, the ring, got {}", op, mask.ring, columns);
  return mask;
}

struct CachedMaskOp {
  static Op declaration() {
    return {.name = "cached_mask",
            .category = OpCategory::kAttention,
            .operands = {2},
            .attrs = {{"window", int64_t{0}, false}, {"ring", int64_t{0}}},
            .formula = "no FLOPs: a selection"};
  }

  // Inputs scores [N,H,C], positions.
  static std::vector<Type> infer(const Call& call) {
    cell_mask("cached_mask", call);
    return {call.inputs[0]};
  }

  static void reference(const Call& call, Inputs64 in, Outputs64 out) {
    const Shape& shape = call.inputs[0].shape;
    const CellMask mask = cell_mask("cached_mask", call);
    for (size_t i = 0; i < out[0].data.size(); ++i) {
      const auto position =
          static_cast<int64_t>(in[1]->data[i / static_cast<size_t>(shape[1] * shape[2])]);
      const bool seen = mask.sees(position, static_cast<int64_t>(i) % shape[2]);
      out[0].data[i] = seen ? in[0]->data[i] : -std::numeric_limits<double>::infinity();
    }
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (int64_t window : {0, 3})
      cases.push_back({fmt::format("window{}", window),
                       {inert(f32({9, 2, 13})), sample_positions(9, 40)},
                       {{"window", window}, {"ring", int64_t{17}}}});
    return cases;
  }
};

struct CachedSoftmaxOp {
  static Op declaration() {
    return {.name = "cached_softmax",
            .category = OpCategory::kSoftmaxAndLoss,
            .kind = OpKind::kFused,
            .operands = {2},
            .attrs = {{"window", int64_t{0}, false}, {"ring", int64_t{0}}, {"scale", 0.0}},
            .formula = "6 FLOPs an element: scale, and those of softmax"};
  }

  // Inputs scores [N,H,C], positions.
  static std::vector<Type> infer(const Call& call) {
    cell_mask("cached_softmax", call);
    if (const double scale = call.attrs.real("scale"); !(scale > 0))
      throw usage_error("[cached_softmax] expected a scale > 0, got {}", scale);
    return {call.inputs[0]};
  }

  static Work work(const Call& call) {
    const int64_t elements = call.inputs[0].shape.elements();
    return arithmetic(6 * elements, 2 * elements);
  }

  static void reference(const Call& call, Inputs64 in, Outputs64 out) {
    const Shape& shape = call.inputs[0].shape;
    const CellMask mask = cell_mask("cached_softmax", call);
    const double scale = call.attrs.real("scale");
    for (int64_t row = 0; row < shape[0] * shape[1]; ++row) {
      const auto position = static_cast<int64_t>(in[1]->data[static_cast<size_t>(row / shape[1])]);
      const double* x = in[0]->data.data() + row * shape[2];
      double* y = out[0].data.data() + row * shape[2];
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t c = 0; c < shape[2]; ++c)
        if (mask.sees(position, c)) top = std::max(top, scale * x[c]);
      for (int64_t c = 0; c < shape[2]; ++c)
        sum += y[c] = mask.sees(position, c) ? std::exp(scale * x[c] - top) : 0;
      for (int64_t c = 0; sum > 0 && c < shape[2]; ++c) y[c] /= sum;
    }
  }

  static std::vector<Case> cases() {
    struct CachedSoftmaxSample {
      int64_t tokens, heads, columns, window, ring, bound;
    };
    std::vector<Case> cases;
    for (const CachedSoftmaxSample& r :
         {CachedSoftmaxSample{9, 2, 13, 0, 17, 40}, CachedSoftmaxSample{9, 2, 13, 3, 17, 40},
          CachedSoftmaxSample{5, 3, 264, 0, 300, 264},
          CachedSoftmaxSample{4, 2, 520, 100, 520, 900},
          CachedSoftmaxSample{2, 1, 9000, 0, 9000, 9000}, CachedSoftmaxSample{3, 1, 1, 0, 1, 1}})
      cases.push_back(
          {fmt::format("n{}h{}c{}w{}", r.tokens, r.heads, r.columns, r.window),
           {inert(f32({r.tokens, r.heads, r.columns})), sample_positions(r.tokens, r.bound)},
           {{"window", r.window}, {"ring", r.ring}, {"scale", 0.7}}});
    return cases;
  }
};

}  // namespace

const Op& cached_softmax_op() { return op_from<CachedSoftmaxOp>(); }

const Op& cached_scores_op() { return op_from<CachedScoresOp>(); }

const Op& cached_mask_op() { return op_from<CachedMaskOp>(); }

const Op& cached_mix_op() { return op_from<CachedMixOp>(); }

}  // namespace ridge::ops
