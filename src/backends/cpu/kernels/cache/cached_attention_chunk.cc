// SPDX-License-Identifier: Apache-2.0
// Flash attention over a KV cache: the queries of a prompt stay in cache while tiles of 64 keys and
// values are streamed.
//
// Mapping: a unit is one KV head with up to 4 of its query heads and at most 64 tokens. Tiles of
// keys begin at multiples of 64 positions, so that a token's sums have the same order in every
// chunk that contains it. Tiles are fp32 (flash_attention/tiles-inl.h), or, where the call allows
// it, integers of 16 bits (int16_tiles-inl.h). Bound: multiplications.
#include "backends/cpu/kernels/cache/cached_attention_chunk.h"

#include <omp.h>

#include <cmath>

#include "backends/cpu/kernels/flash_attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/cache/cached_attention_chunk.cc"
#include "backends/cpu/kernels/flash_attention/targets.h"

#include "backends/cpu/kernels/cache/int16_tiles-inl.h"
#include "backends/cpu/kernels/flash_attention/tiles-inl.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"

#ifndef RIDGE_CACHED_ATTENTION_CHUNK_ONCE_
#define RIDGE_CACHED_ATTENTION_CHUNK_ONCE_
namespace ridge::backends::cpu {
namespace {

struct ChunkShape : HeadPasses {
  ChunkShape(int64_t heads, int64_t kv_heads, int64_t tokens, int64_t threads)
      : HeadPasses(heads, kv_heads), groups(kv_heads * passes) {
    // Enough units for all threads; each unit packs again the keys and values that it attends to.
    while (query_tile > kScoreBlock && groups * ceil_div(tokens, query_tile) < 4 * threads)
      query_tile /= 2;
  }
  int64_t rows() const { return heads_per_pass * kQueryTile; }
  int64_t groups;
  int64_t query_tile = kQueryTile;
};

// Scratch of a thread. For integers, quants [rows, columns] of a tile's keys, values and queries
// lie where their fp32 would; keys' and values' lie behind them too, before they are packed.
struct ChunkScratch : AttentionScratch {
  ChunkScratch(int64_t head_size, int64_t query_rows)
      : AttentionScratch(head_size, query_rows),
        key_scales(floats),
        value_scales(key_scales + kKeyTile),
        query_scales(value_scales + kKeyTile),
        weight_scales(query_scales + query_rows),
        weights(weight_scales + kQueryTile),
        all_floats(weights + kQueryTile * kKeyTile / 2) {}
  int64_t key_scales;     // [64]
  int64_t value_scales;   // [64]
  int64_t query_scales;   // [rows]
  int64_t weight_scales;  // [64]
  int64_t weights;        // quants [64, 64]
  int64_t all_floats;
};

// A thread's unit of work: the queries of some tokens for heads of one KV head.
struct ChunkUnit {
  TileRange tokens;
  int64_t kv_head;
  TileRange heads;
  const ChunkScratch& at;
  float* scratch;
};

}  // namespace
}  // namespace ridge::backends::cpu
#endif  // RIDGE_CACHED_ATTENTION_CHUNK_ONCE_

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// Calls visit(the keys of a run, its values, its first row in the tile) for the cells of positions
// key .. key + keys - 1; the last run is padded to whole blocks.
template <typename T, typename C, typename Visit>
HWY_INLINE void for_each_rows(const CachedAttention<T, C>& call,
                              int64_t kv_head,
                              int64_t key,
                              int64_t keys,
                              const Visit& visit) {
  const int64_t size = call.keys.head_size, stride = call.keys.kv_heads * size;
  for_each_run(call.cells, call.cells.slots[0], key, keys, [&](const CellRun& run) HWY_ATTR {
    const bool last = run.index + run.count == keys;
    const int64_t padded = last ? round_up(keys, kScoreBlock) - run.index : run.count;
    const auto rows = [&](const Cache<const C>& cache) {
      return HeadRows<C>{cache.head(run.row, kv_head),
                         stride,
                         run.count,
                         padded,
                         size,
                         sizeof(C) == 1 ? cache.scale(run.row, kv_head) : nullptr};
    };
    visit(rows(call.keys), rows(call.values), run.index);
  });
}

// The rows of queries of head h of a unit.
template <typename T, typename C>
HWY_INLINE HeadRows<T> query_rows(const CachedAttention<T, C>& call,
                                  const ChunkUnit& unit,
                                  int64_t h) {
  const int64_t tokens = unit.tokens.size();
  return {call.q.head(unit.tokens.first, unit.heads.first + h), call.q.token_stride, tokens, tokens,
          call.keys.head_size};
}

// A unit's operands in its scratch.
class Operands {
 public:
  Operands(const ChunkUnit& unit, int64_t head_size)
      : at_(unit.at), scratch_(unit.scratch), size_(head_size) {}

 protected:
  const ChunkScratch& at_;
  float* const scratch_;
  const int64_t size_;
};

// In fp32.
class FloatOperands : public Operands {
 public:
  using Operands::Operands;

  template <typename T>
  HWY_INLINE void pack_queries(int64_t h, const HeadRows<T>& rows, float factor) const {
    pack_column_blocks<T>(rows, factor, queries(h));
  }
  template <typename T, typename C>
  HWY_INLINE void pack_keys(const CachedAttention<T, C>& call,
                            int64_t kv_head,
                            int64_t key,
                            int64_t keys) const {
    for_each_rows(call, kv_head, key, keys,
                  [&](const HeadRows<C>& k, const HeadRows<C>& v, int64_t row) HWY_ATTR {
                    pack_transposed(k, scratch_ + at_.keys + row);
                    pack_column_blocks(v, 1.0f, scratch_ + at_.values, row);
                  });
  }
  HWY_INLINE PackedTiles tiles(int64_t h) const {
    return {queries(h), scratch_ + at_.keys, scratch_ + at_.values, size_};
  }

 private:
  float* queries(int64_t h) const { return scratch_ + at_.queries + h * kQueryTile * at_.columns; }
};

#if HWY_TARGET != HWY_SCALAR
// In int16.
class Int16Operands : public Operands {
 public:
  using Operands::Operands;

  template <typename T>
  HWY_INLINE void pack_queries(int64_t h, const HeadRows<T>& rows, float factor) const {
    round_rows<RowScale::kLength>(rows, factor, queries(h), query_scales(h));
  }
  template <typename T, typename C>
  HWY_INLINE void pack_keys(const CachedAttention<T, C>& call,
                            int64_t kv_head,
                            int64_t key,
                            int64_t keys) const {
    int16_t *key_quants = int16_at(at_.keys) + kKeyTile * size_,
            *value_quants = int16_at(at_.values) + kKeyTile * at_.columns;
    for_each_rows(call, kv_head, key, keys,
                  [&](const HeadRows<C>& k, const HeadRows<C>& v, int64_t row) HWY_ATTR {
                    round_rows<RowScale::kLength>(k, 1.0f, key_quants + row * size_,
                                                  scratch_ + at_.key_scales + row);
                    round_rows<RowScale::kLargest>(v, 1.0f, value_quants + row * size_,
                                                   scratch_ + at_.value_scales + row);
                  });
    const int64_t padded = round_up(keys, kScoreBlock);
    transpose_pairs(key_quants, padded, size_, int16_at(at_.keys));
    interleave_rows(value_quants, padded, size_, int16_at(at_.values));
  }
  HWY_INLINE Int16Tiles tiles(int64_t h) const {
    return {queries(h),      int16_at(at_.keys),        int16_at(at_.values),
            query_scales(h), scratch_ + at_.key_scales, scratch_ + at_.value_scales,
            size_,           int16_at(at_.weights),     scratch_ + at_.weight_scales};
  }

 private:
  int16_t* int16_at(int64_t offset) const { return reinterpret_cast<int16_t*>(scratch_ + offset); }
  int16_t* queries(int64_t h) const { return int16_at(at_.queries) + h * kQueryTile * size_; }
  float* query_scales(int64_t h) const { return scratch_ + at_.query_scales + h * kQueryTile; }
};
#endif

// One head's queries against a tile of keys and values, at the positions `keys`. If all queries
// attend to the whole tile, it is computed at once; else in row blocks of 16 queries, each with the
// blocks that any of its rows attends to.
template <typename T, typename C, typename Tiles>
HWY_NOINLINE void attend_keys(const CachedAttention<T, C>& call,
                              TileRange tokens,
                              TileRange keys,
                              const Tiles& tiles,
                              const SoftmaxRows& state) {
  const auto seen = [&](int64_t row) {
    const int64_t token = tokens.first + row, last = call.cells.positions[token] + 1 - keys.first;
    return TileRange{last - call.seen(token), last};
  };
  const TileRange tile{0, keys.size()};
  const int64_t rows = tokens.size();
  const bool whole = intersect(seen(0), tile) == tile && intersect(seen(rows - 1), tile) == tile;
  const int64_t step = whole ? rows : kScoreBlock;
  for (int64_t row = 0; row < rows; row += step) {
    const TileRange row_block{row, std::min(row + step, rows)};
    const TileRange any =
        intersect({seen(row_block.first).first, seen(row_block.last - 1).last}, tile);
    if (any.empty()) continue;
    const TileRange columns{any.first / kScoreBlock * kScoreBlock, round_up(any.last, kScoreBlock)};
    attend_row_block(tiles, {row_block, columns}, seen, state);
  }
}

template <typename Form, typename T, typename C>
HWY_NOINLINE void attend_in(const CachedAttention<T, C>& call, const ChunkUnit& unit) {
  const ChunkScratch& at = unit.at;
  const Form operands(unit, call.keys.head_size);
  const int64_t size = call.keys.head_size, tokens = unit.tokens.size();
  const float factor = static_cast<float>(static_cast<double>(call.scale) * kLog2E);
  const auto state = [&](int64_t h)
                         HWY_ATTR { return softmax_rows(at, unit.scratch, h * kQueryTile); };
  for (int64_t h = 0; h < unit.heads.size(); ++h)
    operands.pack_queries(h, query_rows(call, unit, h), factor);
  clear_rows(state(0), at.rows);

  const int64_t first = call.cells.positions[unit.tokens.first] + 1 - call.seen(unit.tokens.first);
  const int64_t last = call.cells.positions[unit.tokens.last - 1] + 1;
  for (int64_t key = first / kKeyTile * kKeyTile; key < last; key += kKeyTile) {
    const int64_t keys = std::min(kKeyTile, last - key);
    operands.pack_keys(call, unit.kv_head, key, keys);
    for (int64_t h = 0; h < unit.heads.size(); ++h)
      attend_keys(call, unit.tokens, {key, key + keys}, operands.tiles(h), state(h));
  }
  for (int64_t h = 0; h < unit.heads.size(); ++h) {
    for (int64_t row = 0; row < tokens; ++row)
      finish_row(state(h), row, size, call.o.head(unit.tokens.first + row, unit.heads.first + h));
  }
}

template <typename T, typename C>
HWY_INLINE void attend_unit(const CachedAttention<T, C>& call, const ChunkUnit& unit) {
#if HWY_TARGET != HWY_SCALAR
  if (call.in_int16 && has_fast_int16()) return attend_in<Int16Operands>(call, unit);
#endif
  attend_in<FloatOperands>(call, unit);
}
RIDGE_TARGETS(RIDGE_CACHES, attend_unit, CachedAttention, const ChunkUnit&)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

bool takes_chunks(int64_t tokens, int64_t head_size) {
  return tokens >= kChunkTokens && head_size % 8 == 0 && head_size <= kMaxHeadSize;
}

int64_t chunk_workspace_floats(int64_t heads, int64_t kv_heads, int64_t head_size) {
  const ChunkShape shape(heads, kv_heads, 1, 1);
  return omp_get_max_threads() * ChunkScratch(head_size, shape.rows()).all_floats;
}

RIDGE_DISPATCH(RIDGE_CACHES, run_unit, attend_unit, CachedAttention, const ChunkUnit&)
// Threads take units in alternating order from round to round, since later tokens attend to more
// keys.
template <typename T, typename C>
void attend_chunk(const CachedAttention<T, C>& call) {
  const int64_t threads = omp_get_max_threads(), tokens = call.cells.tokens;
  const ChunkShape shape(call.heads, call.keys.kv_heads, tokens, threads);
  const ChunkScratch at(call.keys.head_size, shape.rows());
  const int64_t units = shape.groups * ceil_div(tokens, shape.query_tile);
  for_each_part(threads, [&](int64_t thread) {
    for (int64_t round = 0; round * threads < units; ++round) {
      const int64_t index = round * threads + (round % 2 == 0 ? thread : threads - 1 - thread);
      if (index >= units) continue;
      const int64_t first = index / shape.groups * shape.query_tile, group = index % shape.groups;
      const int64_t kv_head = group / shape.passes;
      const int64_t head = group % shape.passes * shape.heads_per_pass;
      const int64_t heads = std::min(shape.heads_per_pass, shape.heads_per_kv - head);
      const int64_t first_head = kv_head * shape.heads_per_kv + head;
      run_unit(call, {{first, std::min(first + shape.query_tile, tokens)},
                      kv_head,
                      {first_head, first_head + heads},
                      at,
                      call.workspace + thread * at.all_floats});
    }
  });
}
RIDGE_INSTANCES(RIDGE_CACHES, void, attend_chunk, CachedAttention)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
