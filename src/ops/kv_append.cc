// SPDX-License-Identifier: Apache-2.0
// kv_append: writes the keys and values of N tokens into their cells of a cache, in place and in
// the order of the tokens, rounded to the cache's type. Inputs: key cache, value cache
// [blocks,block_tokens,K,E], k and v [N,K,E], positions, slots i32[N], block table
// i32[S,blocks_per_slot], and for caches of quants the scales of keys and of values. Outputs: new
// versions of the caches, and of the scales. Also implements kv_cache.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/bf16.h"
#include "base/block_formats.h"
#include "ops/kv_cache.h"
#include "ops/op_from.h"

namespace ridge::ops {

CacheExtents cache_extents(std::string_view op, const Call& call, const Type& cache, size_t index) {
  expect_rank(op, cache, 4, "the cache");
  const Type &positions = call.inputs[index], &slots = call.inputs[index + 1],
             &table = call.inputs[index + 2];
  for (const Type* type : {&positions, &slots}) {
    expect_rank(op, *type, 1, "positions and slots");
    expect_dtype(op, *type, DType::kI32, "positions and slots");
  }
  expect_same(op, positions, slots, "positions and slots");
  expect_rank(op, table, 2, "the block table");
  expect_dtype(op, table, DType::kI32, "the block table");
  CacheExtents e{positions.shape[0], table.shape[0], table.shape[1], cache.shape[0],
                 cache.shape[1],     cache.shape[2], cache.shape[3]};
  for (int64_t extent :
       {e.slots, e.blocks_per_slot, e.blocks, e.block_tokens, e.kv_heads, e.head_size})
    if (extent < 1)
      throw usage_error("[{}] expected a cache and a table that are not empty, got {} and {}", op,
                        cache.str(), table.str());
  checked_product(e.blocks_per_slot, e.block_tokens, "a ring");
  return e;
}

Type scales_of(const Type& cache) { return f32({cache.shape[0], cache.shape[2], cache.shape[1]}); }

void expect_cache(std::string_view op, const Call& call, const CacheInputs& at) {
  const DType tokens = call.inputs[at.tokens].dtype;
  const Type& cache = call.inputs[at.cache];
  if (!is_float(tokens) || !can_hold(cache.dtype, tokens))
    throw usage_error(
        "[{}] expected a cache of the tokens' floating-point type, or of bf16 for tokens in f32, or "
        "of i8 or f8_e4m3 for tokens in f32 or bf16, got {} for tokens in {}",
        op, name(cache.dtype), name(tokens));
  const size_t wanted = at.plain + (has_scales(cache) ? at.caches : 0);
  if (call.inputs.size() != wanted)
    throw usage_error("[{}] expected {} operands with a cache of {}, got {}", op, wanted,
                      name(cache.dtype), call.inputs.size());
  for (size_t i = at.plain; i < wanted; ++i)
    expect_type(op, call.inputs[i], scales_of(cache), "the scales");
}

double CachedValues::at(int64_t row, int64_t head, int64_t element) const {
  const int64_t index = (row * extents.kv_heads + head) * extents.head_size + element;
  const double value = cache.data[static_cast<size_t>(index)];
  if (scales == nullptr) return value;
  return value * scales->data[static_cast<size_t>(scale_index(extents, row, head))];
}

CachedValues cached_values(const CacheExtents& extents,
                           Inputs64 inputs,
                           size_t cache,
                           size_t scales) {
  return {extents, *inputs[cache], has_scales(inputs[cache]->type) ? inputs[scales] : nullptr};
}

int64_t cache_row(const CacheExtents& e, const Tensor64& table, int64_t slot, int64_t cell) {
  double block = table.data[static_cast<size_t>(slot * e.blocks_per_slot + cell / e.block_tokens)];
  return static_cast<int64_t>(block) * e.block_tokens + cell % e.block_tokens;
}

double quantize_head(DType cache, const double* values, int64_t count, double* quants) {
  float most = 0;  // in fp32, so that quants are defined exactly
  bool is_finite = true;
  for (int64_t i = 0; i < count; ++i) {
    is_finite = is_finite && std::isfinite(values[i]);
    most = std::max(most, std::abs(static_cast<float>(values[i])));
  }
  std::fill_n(quants, count, 0.0);
  if (!is_finite) return std::numeric_limits<float>::quiet_NaN();
  const float scale = most / (cache == DType::kI8 ? 127.0f : 448.0f);
  if (scale < std::numeric_limits<float>::min()) return 0;
  const float inverse = 1.0f / scale;
  for (int64_t i = 0; i < count; ++i) {
    const float exact = static_cast<float>(values[i]) * inverse;
    quants[i] =
        cache == DType::kI8 ? std::nearbyint(exact) : f8_e4m3_to_float(float_to_f8_e4m3(exact));
  }
  return scale;
}

CaseInput sample_positions(int64_t tokens, int64_t bound) {
  return {i32({tokens}), {Fill::kIds, static_cast<double>(bound), false}, false};
}
CaseInput sample_slots(int64_t tokens, int64_t slots) {
  return {i32({tokens}), {Fill::kPositions, static_cast<double>(slots), false}, false};
}
CaseInput sample_block_table(int64_t slots, int64_t blocks_per_slot) {
  return {i32({slots, blocks_per_slot}),
          {Fill::kPositions, static_cast<double>(slots * blocks_per_slot), false},
          false};
}

std::vector<Case> with_narrow_caches(std::vector<Case> cases,
                                     std::initializer_list<size_t> caches) {
  struct NarrowForm {
    DType tokens, cache;
  };
  const size_t count = cases.size();
  for (const NarrowForm& form :
       {NarrowForm{DType::kF32, DType::kBF16}, NarrowForm{DType::kF32, DType::kI8},
        NarrowForm{DType::kBF16, DType::kI8}, NarrowForm{DType::kBF16, DType::kF8E4M3}})
    for (size_t i = 0; i < count; ++i) {
      Case each = cases[i];
      for (CaseInput& input : each.inputs) {
        if (input.type.dtype == DType::kF32) input.type.dtype = form.tokens;
        input.castable = false;
      }
      for (size_t cache : caches) {
        Type& type = each.inputs[cache].type;
        type.dtype = form.cache;
        if (!has_scales(type)) continue;
        // Quants and scales whose products are as large as the values of other caches.
        each.inputs[cache].fill.parameter = 40;
        each.inputs.push_back(fixed(scales_of(type), 1.0 / 40));
      }
      each.name += form.tokens == DType::kF32 ? fmt::format("_{}", name(form.cache))
                                              : fmt::format("_bf16_{}", name(form.cache));
      cases.push_back(std::move(each));
    }
  return cases;
}

namespace {

constexpr size_t kPlain = 7;  // inputs besides scales

CacheExtents extents(const Call& call) {
  expect_same("kv_append", call.inputs[0], call.inputs[1], "the caches of keys and values");
  expect_same("kv_append", call.inputs[2], call.inputs[3], "k and v");
  CacheExtents e = cache_extents("kv_append", call, call.inputs[0], 4);
  expect_shape("kv_append", call.inputs[2], {e.tokens, e.kv_heads, e.head_size}, "k");
  expect_cache("kv_append", call, {.tokens = 2, .cache = 0, .plain = kPlain, .caches = 2});
  return e;
}

// A token's heads, [K,E].
struct TokenHeads {
  DType type;
  const double* values;
};

// Writes a token to a row of a cache.
void append_row(const CacheExtents& e,
                const TokenHeads& token,
                int64_t row,
                Tensor64& cache,
                Tensor64* scales) {
  const double* values = token.values;
  double* to = cache.data.data() + row * e.kv_heads * e.head_size;
  if (scales == nullptr) {
    const bool narrows = cache.type.dtype != token.type;
    for (int64_t i = 0; i < e.kv_heads * e.head_size; ++i)
      to[i] = narrows ? bf16_to_float(float_to_bf16(static_cast<float>(values[i]))) : values[i];
    return;
  }
  for (int64_t h = 0; h < e.kv_heads; ++h)
    scales->data[static_cast<size_t>(scale_index(e, row, h))] = quantize_head(
        cache.type.dtype, values + h * e.head_size, e.head_size, to + h * e.head_size);
}

struct KvAppendOp {
  static Op declaration() {
    return {.name = "kv_append",
            .category = OpCategory::kDataMovement,
            .operands = {kPlain, kPlain + 2},
            .formula = "no FLOPs; writes the rows appended"};
  }

  static std::vector<Type> infer(const Call& call) {
    extents(call);
    std::vector<Type> types{call.inputs[0], call.inputs[1]};
    types.insert(types.end(), call.inputs.begin() + kPlain, call.inputs.end());
    return types;
  }

  static std::vector<Alias> aliases(const Call& call) {
    std::vector<Alias> aliases{{0, 0}, {1, 1}};
    for (size_t i = kPlain; i < call.inputs.size(); ++i)
      aliases.push_back({static_cast<int>(i - kPlain + 2), static_cast<int>(i)});
    return aliases;
  }

  // Counts the rows appended, not the caches.
  static std::optional<Traffic> traffic(const Call& call) {
    const CacheExtents e = extents(call);
    Traffic traffic = whole_operands(call);
    for (size_t part : {size_t{0}, size_t{1}}) {
      traffic.read_bytes[part] = 0;
      traffic.written_bytes[part] =
          storage_bytes(call.inputs[part].dtype, e.tokens * e.kv_heads * e.head_size);
    }
    for (size_t i = kPlain; i < call.inputs.size(); ++i) {
      traffic.read_bytes[i] = 0;
      traffic.written_bytes[i - kPlain + 2] =
          storage_bytes(call.inputs[i].dtype, e.tokens * e.kv_heads);
    }
    return traffic;
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    CacheExtents e = extents(call);
    const bool scaled = has_scales(call.inputs[0]);
    int64_t width = e.kv_heads * e.head_size;
    for (size_t part = 0; part < 2; ++part) {
      outputs[part].data = inputs[part]->data;
      if (scaled) outputs[2 + part].data = inputs[kPlain + part]->data;
    }
    for (int64_t n = 0; n < e.tokens; ++n) {
      int64_t position = static_cast<int64_t>(inputs[4]->data[static_cast<size_t>(n)]);
      int64_t slot = static_cast<int64_t>(inputs[5]->data[static_cast<size_t>(n)]);
      if (position < 0) continue;
      int64_t row = cache_row(e, *inputs[6], slot, position % e.ring());
      for (size_t part = 0; part < 2; ++part)
        append_row(e, {call.inputs[2].dtype, inputs[2 + part]->data.data() + n * width}, row,
                   outputs[part], scaled ? &outputs[2 + part] : nullptr);
    }
  }

  static std::vector<Case> cases() {
    struct KvAppendSample {
      int64_t tokens, slots, per_slot, block, kv_heads, head_size;
    };
    std::vector<Case> cases;
    for (KvAppendSample r : {KvAppendSample{1, 1, 1, 1, 1, 2}, KvAppendSample{7, 2, 1, 5, 2, 8},
                             KvAppendSample{23, 3, 4, 2, 1, 16}}) {
      const Shape shape{r.slots * r.per_slot, r.block, r.kv_heads, r.head_size};
      CaseInput cache = inert(f32(shape)), rows = inert(f32({r.tokens, r.kv_heads, r.head_size}));
      cases.push_back(
          {fmt::format("n{}s{}b{}", r.tokens, r.slots, r.block),
           {cache, cache, rows, rows, sample_positions(r.tokens, 2 * r.per_slot * r.block),
            sample_slots(r.tokens, r.slots), sample_block_table(r.slots, r.per_slot)},
           {}});
    }
    return with_narrow_caches(std::move(cases), {0, 1});
  }
};

}  // namespace

const Op& kv_append_op() { return op_from<KvAppendOp>(); }

}  // namespace ridge::ops
