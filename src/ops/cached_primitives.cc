// SPDX-License-Identifier: Apache-2.0
// What cached_attention expands to besides scale and softmax, one kernel each with the N x C matrix
// of scores in memory: cached_scores (q times the keys in the cells of its token's slot),
// cached_mask (hides the cells that a token does not see) and cached_mix (probabilities times
// values). C columns are the first C cells of a slot's ring.
#include <limits>
#include <vector>

#include "ops/cached_attention.h"
#include "ops/infer.h"

namespace ridge::ops {
namespace {

void expect_heads(std::string_view op, int64_t heads, int64_t kv_heads) {
  if (heads < 1 || heads % kv_heads != 0)
    throw usage_error("[{}] expected heads as a multiple of KV heads, got {} and {}", op, heads,
                      kv_heads);
}

void expect_columns(std::string_view op, int64_t columns, const CacheExtents& cache) {
  if (columns < 1 || columns > cache.ring())
    throw usage_error("[{}] expected 1 to {} columns, got {}", op, cache.ring(), columns);
}

// Inputs q [N,H,E], keys, positions, slots, table.
CacheExtents score_extents(const Call& call) {
  CacheExtents e = cache_extents("cached_scores", call, call.inputs[1], 2);
  const Type& q = call.inputs[0];
  expect_rank("cached_scores", q, 3, "q");
  expect_type("cached_scores", q, {call.inputs[1].dtype, {e.tokens, q.shape[1], e.head_size}}, "q");
  expect_heads("cached_scores", q.shape[1], e.kv_heads);
  expect_columns("cached_scores", call.attrs.integer("columns"), e);
  return e;
}

// Inputs probabilities [N,H,C], values, positions, slots, table.
CacheExtents mix_extents(const Call& call) {
  CacheExtents e = cache_extents("cached_mix", call, call.inputs[1], 2);
  const Type& p = call.inputs[0];
  expect_rank("cached_mix", p, 3, "the probabilities");
  expect_type("cached_mix", p, {call.inputs[1].dtype, {e.tokens, p.shape[1], p.shape[2]}},
              "the probabilities");
  expect_heads("cached_mix", p.shape[1], e.kv_heads);
  expect_columns("cached_mix", p.shape[2], e);
  return e;
}

std::vector<Type> infer_scores(const Call& call) {
  CacheExtents e = score_extents(call);
  int64_t heads = call.inputs[0].shape[1], columns = call.attrs.integer("columns");
  checked_product(checked_product(e.tokens * heads, columns, "scores"), 32 * e.head_size, "scores");
  return {{call.inputs[0].dtype, {e.tokens, heads, columns}}};
}

std::vector<Type> infer_mix(const Call& call) {
  CacheExtents e = mix_extents(call);
  checked_product(call.inputs[0].shape.elements(), 32 * e.head_size, "probabilities");
  return {{call.inputs[0].dtype, {e.tokens, call.inputs[0].shape[1], e.head_size}}};
}

Work work_scores(const Call& call) {
  return products(call.inputs[0].shape.elements() * call.attrs.integer("columns"));
}
Work work_mix(const Call& call) {
  return products(call.inputs[0].shape.elements() * call.inputs[1].shape[3]);
}

// The first C cells of each slot that a token may belong to.
std::optional<Traffic> traffic(const Call& call,
                               const CacheExtents& e,
                               int64_t columns,
                               const Type& out) {
  auto bytes = [](const Type& type) { return storage_bytes(type.dtype, type.shape.elements()); };
  int64_t rows = std::min(e.tokens, e.slots) * columns;
  int64_t cached = storage_bytes(call.inputs[1].dtype, rows * e.kv_heads * e.head_size);
  return Traffic{bytes(call.inputs[0]) + cached + 8 * e.tokens + bytes(call.inputs[4]), bytes(out)};
}
std::optional<Traffic> traffic_scores(const Call& call) {
  return traffic(call, score_extents(call), call.attrs.integer("columns"), infer_scores(call)[0]);
}
std::optional<Traffic> traffic_mix(const Call& call) {
  return traffic(call, mix_extents(call), call.inputs[0].shape[2], infer_mix(call)[0]);
}

// Calls visit(row of q or o, head's row in the cache, column) for each token that is not padding.
template <typename Visit>
void visit_cells(const CacheExtents& e,
                 int64_t heads,
                 int64_t columns,
                 const Tensor64& positions,
                 const Tensor64& slots,
                 const Tensor64& table,
                 const Visit& visit) {
  for (int64_t n = 0; n < e.tokens; ++n) {
    if (positions.data[static_cast<size_t>(n)] < 0) continue;
    int64_t slot = static_cast<int64_t>(slots.data[static_cast<size_t>(n)]);
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t c = 0; c < columns; ++c)
        visit(n * heads + h, cache_row(e, table, slot, c) * e.kv_heads + h / (heads / e.kv_heads),
              c);
  }
}

void reference_scores(const Call& call,
                      std::span<const Tensor64* const> in,
                      std::span<Tensor64> out) {
  CacheExtents e = score_extents(call);
  int64_t columns = call.attrs.integer("columns");
  std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
  visit_cells(e, call.inputs[0].shape[1], columns, *in[2], *in[3], *in[4],
              [&](int64_t row, int64_t cached, int64_t c) {
                for (int64_t i = 0; i < e.head_size; ++i)
                  out[0].data[static_cast<size_t>(row * columns + c)] +=
                      in[0]->data[static_cast<size_t>(row * e.head_size + i)] *
                      in[1]->data[static_cast<size_t>(cached * e.head_size + i)];
              });
}

void reference_mix(const Call& call, std::span<const Tensor64* const> in, std::span<Tensor64> out) {
  CacheExtents e = mix_extents(call);
  int64_t columns = call.inputs[0].shape[2];
  std::fill(out[0].data.begin(), out[0].data.end(), 0.0);
  visit_cells(e, call.inputs[0].shape[1], columns, *in[2], *in[3], *in[4],
              [&](int64_t row, int64_t cached, int64_t c) {
                for (int64_t i = 0; i < e.head_size; ++i)
                  out[0].data[static_cast<size_t>(row * e.head_size + i)] +=
                      in[0]->data[static_cast<size_t>(row * columns + c)] *
                      in[1]->data[static_cast<size_t>(cached * e.head_size + i)];
              });
}

// Inputs scores [N,H,C], positions.
std::vector<Type> infer_mask(const Call& call) {
  expect_float("cached_mask", call.inputs[0], "the scores");
  expect_rank("cached_mask", call.inputs[0], 3, "the scores");
  expect_type("cached_mask", call.inputs[1], i32({call.inputs[0].shape[0]}), "positions");
  if (call.attrs.integer("window") < 0 || call.attrs.integer("ring") < 1)
    throw usage_error("[cached_mask] expected a window >= 0 and a ring >= 1, got {} and {}",
                      call.attrs.integer("window"), call.attrs.integer("ring"));
  return {call.inputs[0]};
}

void reference_mask(const Call& call,
                    std::span<const Tensor64* const> in,
                    std::span<Tensor64> out) {
  const Shape& shape = call.inputs[0].shape;
  int64_t window = call.attrs.integer("window"), ring = call.attrs.integer("ring");
  for (size_t i = 0; i < out[0].data.size(); ++i) {
    int64_t cell = static_cast<int64_t>(i) % shape[2];
    int64_t position =
        static_cast<int64_t>(in[1]->data[i / static_cast<size_t>(shape[1] * shape[2])]);
    int64_t key = position_in_cell(position, cell, ring);
    bool seen = position >= 0 && key >= 0 && (window == 0 || key > position - window);
    out[0].data[i] = seen ? in[0]->data[i] : -std::numeric_limits<double>::infinity();
  }
}

struct Row {
  int64_t tokens, slots, per_slot, block, heads, kv_heads, head_size, columns;
};
constexpr Row kRows[] = {{1, 1, 1, 1, 1, 1, 1, 1},
                         {7, 2, 3, 4, 6, 2, 9, 10},
                         {5, 1, 1, 70, 4, 1, 16, 70}};

CaseInput plain(const Shape& shape) { return {f32(shape), {Fill::kNormal, 1, false}}; }

std::vector<Case> cases_of(bool mix) {
  std::vector<Case> cases;
  for (const Row& r : kRows) {
    cases.push_back({fmt::format("n{}s{}b{}h{}c{}", r.tokens, r.slots, r.block, r.heads, r.columns),
                     {plain({r.tokens, r.heads, mix ? r.columns : r.head_size}),
                      plain({r.slots * r.per_slot, r.block, r.kv_heads, r.head_size}),
                      sample_positions(r.tokens, r.columns), sample_slots(r.tokens, r.slots),
                      sample_block_table(r.slots, r.per_slot)},
                     {}});
    if (!mix) cases.back().attrs.set("columns", r.columns);
  }
  return cases;
}
std::vector<Case> cases_scores() { return cases_of(false); }
std::vector<Case> cases_mix() { return cases_of(true); }

std::vector<Case> cases_mask() {
  std::vector<Case> cases;
  for (int64_t window : {0, 3})
    cases.push_back({fmt::format("window{}", window),
                     {plain({9, 2, 13}), sample_positions(9, 40)},
                     {{"window", window}, {"ring", int64_t{17}}}});
  return cases;
}

Op make(std::string name, std::string formula) {
  return {.name = std::move(name), .min_inputs = 5, .max_inputs = 5, .formula = std::move(formula)};
}

}  // namespace

const Op& cached_scores_op() {
  static const Op op = [] {
    Op made = make("cached_scores", "MACs = N H C E");
    made.attrs = {{"columns", int64_t{0}}};
    made.infer = infer_scores;
    made.work = work_scores;
    made.traffic = traffic_scores;
    made.reference = reference_scores;
    made.cases = cases_scores;
    return made;
  }();
  return op;
}

const Op& cached_mask_op() {
  static const Op op = [] {
    Op made = make("cached_mask", "no FLOPs: a selection");
    made.min_inputs = made.max_inputs = 2;
    made.attrs = {{"window", int64_t{0}, false}, {"ring", int64_t{0}}};
    made.infer = infer_mask;
    made.reference = reference_mask;
    made.cases = cases_mask;
    return made;
  }();
  return op;
}

const Op& cached_mix_op() {
  static const Op op = [] {
    Op made = make("cached_mix", "MACs = N H C E");
    made.infer = infer_mix;
    made.work = work_mix;
    made.traffic = traffic_mix;
    made.reference = reference_mix;
    made.cases = cases_mix;
    return made;
  }();
  return op;
}

}  // namespace ridge::ops
