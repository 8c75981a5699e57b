// SPDX-License-Identifier: Apache-2.0
// kv_append: writes the keys and values of N tokens into their cells of a cache, in place and in
// the order of the tokens. Inputs: key cache, value cache [blocks,block_tokens,K,E], k and v
// [N,K,E], positions, slots i32[N], block table i32[S,blocks_per_slot]. Outputs: new versions of
// the caches. Also implements kv_cache.h.
#include <algorithm>
#include <vector>

#include "ops/case_inputs.h"
#include "ops/kv_cache.h"
#include "ops/op_from.h"

namespace ridge::ops {

CacheExtents cache_extents(std::string_view op, const Call& call, const Type& cache, size_t index) {
  expect_float(op, cache, "the cache");
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

int64_t cache_row(const CacheExtents& e, const Tensor64& table, int64_t slot, int64_t cell) {
  double block = table.data[static_cast<size_t>(slot * e.blocks_per_slot + cell / e.block_tokens)];
  return static_cast<int64_t>(block) * e.block_tokens + cell % e.block_tokens;
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

namespace {

CacheExtents extents(const Call& call) {
  expect_same("kv_append", call.inputs[0], call.inputs[1], "the caches of keys and values");
  expect_same("kv_append", call.inputs[2], call.inputs[3], "k and v");
  CacheExtents e = cache_extents("kv_append", call, call.inputs[0], 4);
  expect_type("kv_append", call.inputs[2],
              {call.inputs[0].dtype, {e.tokens, e.kv_heads, e.head_size}}, "k");
  return e;
}

struct KvAppendOp {
  static Op declaration() {
    return {.name = "kv_append", .operands = {7}, .formula = "no FLOPs; writes the rows appended"};
  }

  static std::vector<Type> infer(const Call& call) {
    extents(call);
    return {call.inputs[0], call.inputs[1]};
  }

  static std::vector<Alias> aliases(const Call&) { return {{0, 0}, {1, 1}}; }

  // Counts the rows appended, not the caches.
  static std::optional<Traffic> traffic(const Call& call) {
    Traffic traffic = whole_operands(call);
    for (size_t part : {size_t{0}, size_t{1}}) {
      traffic.read_bytes[part] = 0;
      traffic.written_bytes[part] = bytes_of(call.inputs[2 + part]);
    }
    return traffic;
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    CacheExtents e = extents(call);
    int64_t width = e.kv_heads * e.head_size;
    for (size_t part = 0; part < 2; ++part) outputs[part].data = inputs[part]->data;
    for (int64_t n = 0; n < e.tokens; ++n) {
      int64_t position = static_cast<int64_t>(inputs[4]->data[static_cast<size_t>(n)]);
      int64_t slot = static_cast<int64_t>(inputs[5]->data[static_cast<size_t>(n)]);
      if (position < 0) continue;
      int64_t row = cache_row(e, *inputs[6], slot, position % e.ring());
      for (size_t part = 0; part < 2; ++part)
        std::copy_n(inputs[2 + part]->data.begin() + n * width, width,
                    outputs[part].data.begin() + row * width);
    }
  }

  static std::vector<Case> cases() {
    struct Row {
      int64_t tokens, slots, per_slot, block, kv_heads, head_size;
    };
    std::vector<Case> cases;
    for (Row r : {Row{1, 1, 1, 1, 1, 2}, Row{7, 2, 1, 5, 2, 8}, Row{23, 3, 4, 2, 1, 16}}) {
      CaseInput cache = inert(f32({r.slots * r.per_slot, r.block, r.kv_heads, r.head_size}));
      CaseInput rows = inert(f32({r.tokens, r.kv_heads, r.head_size}));
      cases.push_back(
          {fmt::format("n{}s{}b{}", r.tokens, r.slots, r.block),
           {cache, cache, rows, rows, sample_positions(r.tokens, 2 * r.per_slot * r.block),
            sample_slots(r.tokens, r.slots), sample_block_table(r.slots, r.per_slot)},
           {}});
    }
    return cases;
  }
};

}  // namespace

const Op& kv_append_op() { return op_from<KvAppendOp>(); }

}  // namespace ridge::ops
