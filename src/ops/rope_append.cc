// SPDX-License-Identifier: Apache-2.0
// rope_append, made by the pass fuse_rope_append: prepares a merged projection [N,(H+2K)E] for
// attention over a cache, in one pass. The q and k heads are normed (with `norms`) and rotated; q
// is laid out as [N,H,E], and keys and values are written into their cells in place. Inputs: key
// cache, value cache, merged, cos, sin, positions, slots, block table, with `norms` the weights
// f32[E] for the heads of q and of k, and for caches of quants the scales of keys and of values.
// Outputs: new versions of the caches, q, new versions of the scales. Inference only: it has no
// gradient.
#include "ops/rope_append.h"

#include <algorithm>
#include <vector>

#include "ops/kv_cache.h"
#include "ops/op_from.h"
#include "ops/rms_norm.h"
#include "ops/rotate.h"

namespace ridge::ops {

std::vector<AttrSpec> rope_append_attrs() {
  return {{"heads", int64_t{0}},
          {"interleaved", false, false},
          {"norms", false, false},
          {"eps", 0.0, false},
          {"offset", 0.0, false}};
}

Case rope_append_case(std::string name,
                      const RopeAppendSample& r,
                      CaseInput (*activation)(const Shape&),
                      const CaseInput& positions) {
  CaseInput cache = activation({r.slots * r.per_slot, r.block, r.kv_heads, r.head_size});
  CaseInput table = fixed(f32({r.tokens, r.head_size / 2})), weight = fixed(f32({r.head_size}));
  Case made{
      std::move(name),
      {cache, cache, activation({r.tokens, (r.heads + 2 * r.kv_heads) * r.head_size}), table, table,
       positions, sample_slots(r.tokens, r.slots), sample_block_table(r.slots, r.per_slot)},
      {{"heads", r.heads},
       {"interleaved", r.interleaved},
       {"norms", r.norms},
       {"eps", 1e-3},
       {"offset", r.norms ? 1.0 : 0.0}}};
  if (r.norms) made.inputs.insert(made.inputs.end(), {weight, weight});
  return made;
}

namespace {

constexpr const char* kOp = "rope_append";

// The inputs besides scales.
size_t plain_inputs(const Attrs& attrs) { return attrs.flag("norms") ? 10 : 8; }

struct Extents {
  CacheExtents cache;
  int64_t heads = 0;
};

Extents extents(const Call& call) {
  const Type& merged = call.inputs[2];
  expect_same(kOp, call.inputs[0], call.inputs[1], "the caches of keys and values");
  const size_t plain = plain_inputs(call.attrs);
  Extents e{cache_extents(kOp, call, call.inputs[0], 5), call.attrs.integer("heads")};
  expect_cache(kOp, call, {.tokens = 2, .cache = 0, .plain = plain, .caches = 2});
  const CacheExtents& c = e.cache;
  if (e.heads < 1 || e.heads > int64_t{1} << 20)
    throw usage_error("[{}] expected at least one head, got {}", kOp, e.heads);
  expect_even_head(c.head_size);
  expect_type(kOp, merged,
              {has_scales(call.inputs[0]) ? merged.dtype : call.inputs[0].dtype,
               {c.tokens, (e.heads + 2 * c.kv_heads) * c.head_size}},
              "the merged projection");
  for (size_t i : {size_t{3}, size_t{4}})
    expect_type(kOp, call.inputs[i], f32({c.tokens, c.head_size / 2}), "cos and sin");
  for (size_t i = 8; i < plain; ++i)
    expect_type(kOp, call.inputs[i], f32({c.head_size}), "a norm's weight");
  return e;
}

struct RopeAppendOp {
  static Op declaration() {
    return {.name = kOp,
            .category = OpCategory::kElementwise,
            .kind = OpKind::kFused,
            .operands = {8, 12},
            .attrs = rope_append_attrs(),
            .formula = "3 FLOPs an element of q and k, and their norms"};
  }

  static std::vector<Type> infer(const Call& call) {
    Extents e = extents(call);
    std::vector<Type> types{call.inputs[0],
                            call.inputs[1],
                            {call.inputs[2].dtype, {e.cache.tokens, e.heads, e.cache.head_size}}};
    types.insert(types.end(),
                 call.inputs.begin() + static_cast<std::ptrdiff_t>(plain_inputs(call.attrs)),
                 call.inputs.end());
    return types;
  }

  static std::vector<Alias> aliases(const Call& call) {
    std::vector<Alias> aliases{{0, 0}, {1, 1}};
    const size_t plain = plain_inputs(call.attrs);
    for (size_t i = plain; i < call.inputs.size(); ++i)
      aliases.push_back({static_cast<int>(i - plain + 3), static_cast<int>(i)});
    return aliases;
  }

  // Per element of q and k: 3 FLOPs, and the norms.
  static Work work(const Call& call) {
    Extents e = extents(call);
    int64_t rows = e.cache.tokens * (e.heads + e.cache.kv_heads);
    Work sum = arithmetic(3 * rows * e.cache.head_size);
    if (call.attrs.flag("norms")) sum += rms_norm_work({rows, e.cache.head_size});
    return sum;
  }
  static ModelWork model_work(const Call& call) { return {work(call), {}}; }

  // Counts the rows appended, not the caches.
  static std::optional<Traffic> traffic(const Call& call) {
    const CacheExtents e = extents(call).cache;
    Traffic traffic = whole_operands(call);
    for (size_t part : {size_t{0}, size_t{1}}) {
      traffic.read_bytes[part] = 0;
      traffic.written_bytes[part] =
          storage_bytes(call.inputs[part].dtype, e.tokens * e.kv_heads * e.head_size);
    }
    const size_t plain = plain_inputs(call.attrs);
    for (size_t i = plain; i < call.inputs.size(); ++i) {
      traffic.read_bytes[i] = 0;
      traffic.written_bytes[i - plain + 3] =
          storage_bytes(call.inputs[i].dtype, e.tokens * e.kv_heads);
    }
    return traffic;
  }

  static void reference(const Call& call, Inputs64 in, Outputs64 out) {
    Extents x = extents(call);
    const CacheExtents& e = x.cache;
    bool norms = call.attrs.flag("norms");
    size_t head_size = static_cast<size_t>(e.head_size), heads = static_cast<size_t>(x.heads),
           kv_heads = static_cast<size_t>(e.kv_heads), all = heads + 2 * kv_heads;
    const DType cache = call.inputs[0].dtype;
    const size_t plain = plain_inputs(call.attrs);
    for (size_t part : {size_t{0}, size_t{1}}) {
      out[part].data = in[part]->data;
      if (has_scales(cache)) out[3 + part].data = in[plain + part]->data;
    }
    for (size_t n = 0; n < static_cast<size_t>(e.tokens); ++n) {
      int64_t position = static_cast<int64_t>(in[5]->data[n]);
      int64_t row = position < 0 ? -1
                                 : cache_row(e, *in[7], static_cast<int64_t>(in[6]->data[n]),
                                             position % e.ring());
      for (size_t h = 0; h < all; ++h) {
        const double* from = &in[2]->data[(n * all + h) * head_size];
        std::vector<double> head(from, from + head_size), rotated = head;
        if (h < heads + kv_heads) {
          if (norms) RmsNormRows{*in[h < heads ? 8 : 9], call.attrs}.norm(from, head.data());
          Rotation{&in[3]->data[n * head_size / 2], &in[4]->data[n * head_size / 2], e.head_size,
                   call.attrs.flag("interleaved")}
              .rotate(head.data(), rotated.data());
        }
        size_t part = h < heads ? 2 : h < heads + kv_heads ? 0 : 1;
        if (part < 2 && row < 0) continue;
        size_t to = part == 2 ? n * heads + h
                              : static_cast<size_t>(row) * kv_heads + (h - heads) % kv_heads;
        double* target = &out[part].data[to * head_size];
        if (part == 2 || !has_scales(cache))
          std::copy(rotated.begin(), rotated.end(), target);
        else
          out[3 + part].data[static_cast<size_t>(
              scale_index(e, row, static_cast<int64_t>((h - heads) % kv_heads)))] =
              quantize_head(cache, rotated.data(), e.head_size, target);
      }
    }
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const RopeAppendSample& r : {RopeAppendSample{1, 1, 1, 3, 1, 1, 2, false, false},
                                      RopeAppendSample{7, 2, 1, 5, 4, 2, 24, true, false},
                                      RopeAppendSample{5, 3, 4, 2, 3, 1, 64, false, true},
                                      RopeAppendSample{3, 1, 1, 9, 4, 1, 256, true, false}})
      cases.push_back(rope_append_case(
          fmt::format("n{}s{}h{}k{}e{}", r.tokens, r.slots, r.heads, r.kv_heads, r.head_size), r,
          [](const Shape& shape) { return inert(f32(shape)); },
          sample_positions(r.tokens, 2 * r.per_slot * r.block)));
    return cases;
  }
};

}  // namespace

const Op& rope_append_op() { return op_from<RopeAppendOp>(); }

}  // namespace ridge::ops
