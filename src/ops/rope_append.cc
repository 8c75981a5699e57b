// SPDX-License-Identifier: Apache-2.0
// rope_append (put there by fuse_rope_append): a merged projection [N,(H+2K)E] goes where an
// attention over a cache wants it, in one pass: q and k heads are normed where `norms`, rotated, and
// q is laid out as [N,H,E] while keys and values are written into their cells in place. Inputs: key
// cache, value cache, merged, cos, sin, positions, slots, block table, and where `norms` the
// weights f32[E] of q's and k's heads. Outputs: new versions of the caches, q. Inference only: it
// has no gradient.
#include <algorithm>
#include <vector>

#include "ops/infer.h"
#include "ops/kv_cache.h"
#include "ops/rms_norm.h"
#include "ops/rotate.h"

namespace ridge::ops {
namespace {

constexpr const char* kOp = "rope_append";

struct Extents {
  CacheExtents cache;
  int64_t heads = 0;
};

Extents extents(const Call& call) {
  const Type& merged = call.inputs[2];
  size_t wanted = call.attrs.flag("norms") ? 10 : 8;
  if (call.inputs.size() != wanted)
    throw usage_error("[{}] expected {} operands, got {}", kOp, wanted, call.inputs.size());
  expect_same(kOp, call.inputs[0], call.inputs[1], "the caches of keys and values");
  Extents e{cache_extents(kOp, call, call.inputs[0], 5), call.attrs.integer("heads")};
  const CacheExtents& c = e.cache;
  if (e.heads < 1 || e.heads > int64_t{1} << 20)
    throw usage_error("[{}] expected at least one head, got {}", kOp, e.heads);
  if (c.head_size % 2 != 0)
    throw usage_error("[rope] expected an even head size, got {}", c.head_size);
  expect_type(kOp, merged,
              {call.inputs[0].dtype, {c.tokens, (e.heads + 2 * c.kv_heads) * c.head_size}},
              "the merged projection");
  for (size_t i : {size_t{3}, size_t{4}})
    expect_type(kOp, call.inputs[i], f32({c.tokens, c.head_size / 2}), "cos and sin");
  for (size_t i = 8; i < wanted; ++i)
    expect_type(kOp, call.inputs[i], f32({c.head_size}), "a norm's weight");
  return e;
}

std::vector<Type> infer(const Call& call) {
  Extents e = extents(call);
  return {call.inputs[0],
          call.inputs[1],
          {call.inputs[2].dtype, {e.cache.tokens, e.heads, e.cache.head_size}}};
}

std::vector<Alias> aliases(const Call&) { return {{0, 0}, {1, 1}}; }

// 3 FLOPs an element of q and k, and their norms.
Work work(const Call& call) {
  Extents e = extents(call);
  int64_t rows = e.cache.tokens * (e.heads + e.cache.kv_heads);
  Work sum = arithmetic(3 * rows * e.cache.head_size);
  if (call.attrs.flag("norms")) sum += rms_norm_work({rows, e.cache.head_size});
  return sum;
}
ModelWork model_work(const Call& call) { return {work(call), {}}; }

// The rows appended, not the caches.
std::optional<Traffic> traffic(const Call& call) {
  auto bytes = [&](size_t i) {
    return storage_bytes(call.inputs[i].dtype, call.inputs[i].shape.elements());
  };
  int64_t read = 0;
  for (size_t i = 2; i < call.inputs.size(); ++i) read += bytes(i);
  return Traffic{read, bytes(2)};
}

void reference(const Call& call, std::span<const Tensor64* const> in, std::span<Tensor64> out) {
  Extents x = extents(call);
  const CacheExtents& e = x.cache;
  bool norms = call.attrs.flag("norms");
  size_t head_size = static_cast<size_t>(e.head_size), heads = static_cast<size_t>(x.heads),
         kv_heads = static_cast<size_t>(e.kv_heads), all = heads + 2 * kv_heads;
  for (size_t part : {size_t{0}, size_t{1}}) out[part].data = in[part]->data;
  for (size_t n = 0; n < static_cast<size_t>(e.tokens); ++n) {
    int64_t position = static_cast<int64_t>(in[5]->data[n]);
    int64_t row = position < 0 ? -1
                               : cache_row(e, *in[7], static_cast<int64_t>(in[6]->data[n]),
                                           position % e.ring());
    for (size_t h = 0; h < all; ++h) {
      const double* from = &in[2]->data[(n * all + h) * head_size];
      std::vector<double> head(from, from + head_size), rotated = head;
      if (h < heads + kv_heads) {
        if (norms)
          rms_norm_row(from, in[h < heads ? 8 : 9]->data.data(), e.head_size,
                       call.attrs.real("eps"), call.attrs.real("offset"), head.data());
        rotate_row(head.data(), &in[3]->data[n * head_size / 2], &in[4]->data[n * head_size / 2],
                   e.head_size, call.attrs.flag("interleaved"), false, rotated.data());
      }
      size_t part = h < heads ? 2 : h < heads + kv_heads ? 0 : 1;
      if (part < 2 && row < 0) continue;
      size_t to =
          part == 2 ? n * heads + h : static_cast<size_t>(row) * kv_heads + (h - heads) % kv_heads;
      std::copy(rotated.begin(), rotated.end(),
                out[part].data.begin() + static_cast<std::ptrdiff_t>(to * head_size));
    }
  }
}

std::vector<Case> cases() {
  struct Row {
    int64_t tokens, slots, per_slot, block, heads, kv_heads, head_size;
    bool norms, interleaved;
  };
  std::vector<Case> cases;
  for (Row r : {Row{1, 1, 1, 3, 1, 1, 2, false, false}, Row{7, 2, 1, 5, 4, 2, 24, true, false},
                Row{5, 3, 4, 2, 3, 1, 64, false, true}, Row{3, 1, 1, 9, 4, 1, 256, true, false}}) {
    CaseInput cache{f32({r.slots * r.per_slot, r.block, r.kv_heads, r.head_size}),
                    {Fill::kNormal, 1, false}};
    CaseInput table{f32({r.tokens, r.head_size / 2}), {Fill::kNormal, 1, false}, false};
    CaseInput weight{f32({r.head_size}), {Fill::kNormal, 1, false}, false};
    Case each{
        fmt::format("n{}s{}h{}k{}e{}", r.tokens, r.slots, r.heads, r.kv_heads, r.head_size),
        {cache,
         cache,
         {f32({r.tokens, (r.heads + 2 * r.kv_heads) * r.head_size}), {Fill::kNormal, 1, false}},
         table,
         table,
         sample_positions(r.tokens, 2 * r.per_slot * r.block),
         sample_slots(r.tokens, r.slots),
         sample_block_table(r.slots, r.per_slot)},
        {{"heads", r.heads},
         {"interleaved", r.interleaved},
         {"norms", r.norms},
         {"eps", 1e-3},
         {"offset", r.norms ? 1.0 : 0.0}}};
    if (r.norms) each.inputs.insert(each.inputs.end(), {weight, weight});
    cases.push_back(std::move(each));
  }
  return cases;
}

}  // namespace

const Op& rope_append_op() {
  static const Op op{.name = kOp,
                     .kind = OpKind::kFused,
                     .min_inputs = 8,
                     .max_inputs = 10,
                     .attrs = {{"heads", int64_t{0}},
                               {"interleaved", false, false},
                               {"norms", false, false},
                               {"eps", 0.0, false},
                               {"offset", 0.0, false}},
                     .formula = "3 FLOPs an element of q and k, and their norms",
                     .infer = infer,
                     .work = work,
                     .traffic = traffic,
                     .model_work = model_work,
                     .aliases = aliases,
                     .reference = reference,
                     .cases = cases};
  return op;
}

}  // namespace ridge::ops
