// SPDX-License-Identifier: Apache-2.0
// Flash attention backward: a tile of keys and values stays in cache with its dK and dV, the query
// tiles that attend to it are streamed, and dQ accumulates in scratch. Weights are recomputed from
// the scores and the forward pass's lse:
//   P = exp(S - lse), dV = P^T dO, dP = dO V^T, dS = P (dP - rowsum(dO O)),
//   dQ = scale dS K, dK = scale dS^T Q.
//
// Mapping: a group is one KV head of one sequence with all of its query heads, so that dK and dV
// need no other thread; a unit of work is a key tile. If threads share a group, each has a partial
// dQ, and a second sweep adds them up. Expected bound: FMA; five GEMMs over the scores,
// exponentials about 4% of them at E = 64.
#include <algorithm>
#include <cmath>

#include "backends/cpu/kernels/flash_attention/flash_attention.h"
#include "backends/cpu/kernels/flash_attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/flash_attention/backward.cc"
#include "backends/cpu/kernels/flash_attention/targets.h"

#include "backends/cpu/kernels/flash_attention/tiles-inl.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"

#ifndef RIDGE_FLASH_ATTENTION_BACKWARD_ONCE_
#define RIDGE_FLASH_ATTENTION_BACKWARD_ONCE_
namespace ridge::backends::cpu {
namespace {

// The workspace, in floats: delta, then each thread's tiles, then each thread's dQ sums. Parts are
// multiples of a cache line.
struct BackwardLayout {
  BackwardLayout(const AttentionExtents& e, const Schedule& schedule)
      : padded(round_up(e.head_size, kScoreBlock)),
        keys_transposed(0),
        values_transposed(keys_transposed + e.head_size * kKeyTile),
        keys(values_transposed + e.head_size * kKeyTile),
        queries(keys + kKeyTile * padded),
        d_outputs(queries + kQueryTile * padded),
        d_keys(d_outputs + kQueryTile * padded),
        d_values(d_keys + kKeyTile * padded),
        weights(d_values + kKeyTile * padded),
        d_weights(weights + kQueryTile * kKeyTile),
        tile_floats(d_weights + kQueryTile * kKeyTile),
        tiles(round_up(e.batch * e.sequence * e.heads, kScoreBlock)),
        d_queries(tiles + schedule.threads() * tile_floats),
        d_queries_floats(e.heads / e.kv_heads * e.sequence * padded),
        slots(1) {
    for (int64_t group = 0; group < schedule.groups(); ++group)
      slots = schedule.shared(group) ? 2 : slots;
    floats = d_queries + slots * schedule.threads() * d_queries_floats;
  }

  float* thread_tiles(float* workspace, int thread) const {
    return workspace + tiles + thread * tile_floats;
  }

  // Where `thread` accumulates dQ of `group`, [H / K, T, padded E]. A group that it shares with
  // earlier threads is its first group. Its sums must survive the groups that follow, so they are
  // in slot 1. All other groups use slot 0 one after the other; a group shared with later threads
  // comes last.
  float* d_queries_sum(float* workspace,
                       const Schedule& schedule,
                       int64_t group,
                       int thread) const {
    const int64_t slot = slots == 2 && schedule.owner(group, 0) < thread ? 1 : 0;
    return workspace + d_queries + (thread * slots + slot) * d_queries_floats;
  }

  int64_t padded;
  // Within a thread's tiles.
  int64_t keys_transposed;    // [E, 64]
  int64_t values_transposed;  // [E, 64]
  int64_t keys;               // column blocks [64, padded E]
  int64_t queries;            // column blocks, scaled
  int64_t d_outputs;          // column blocks
  int64_t d_keys;             // [64, padded E]
  int64_t d_values;           // [64, padded E]
  int64_t weights;            // [64 queries, 64 keys]: S, then P
  int64_t d_weights;          // [64 queries, 64 keys]: dP, then dS
  int64_t tile_floats;
  // Within the workspace.
  int64_t tiles;
  int64_t d_queries;
  int64_t d_queries_floats;
  int64_t slots;
  int64_t floats;
};

template <typename T>
struct BackwardCall : FlashAttentionBackward<T> {
  const Schedule& schedule;
  const BackwardLayout& layout;
};

// `part` of `parts` nearly equal parts of `count`.
TileRange part_of(int64_t count, int part, int parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

}  // namespace
}  // namespace ridge::backends::cpu
#endif  // RIDGE_FLASH_ATTENTION_BACKWARD_ONCE_

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

template <typename T>
HWY_INLINE void compute_delta(const BackwardCall<T>& call, int thread) {
  const Octet d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const AttentionExtents& e = call.extents;
  const TileRange tokens = part_of(e.batch * e.sequence, thread, call.schedule.threads());
  for (int64_t token = tokens.first; token < tokens.last; ++token) {
    for (int64_t head = 0; head < e.heads; ++head) {
      const T* o = call.o.head(token, head);
      const T* d_o = call.d_o.head(token, head);
      auto sum = hn::Zero(d);
      for (int64_t i = 0; i < e.head_size; i += lanes) {
        sum = hn::MulAdd(load(d, o + i), load(d, d_o + i), sum);
      }
      call.workspace[token * e.heads + head] = hn::GetLane(hn::SumOfLanes(d, sum));
    }
  }
}
RIDGE_TARGETS(RIDGE_FLOATS, compute_delta, BackwardCall, int)

// A row's logarithm to base 2 of the sum of its exponentials, and its sum of o d_o.
struct RowStatistics {
  float log2_sum, delta;
};

// Computes weights from scores and gradients of the scores from gradients of the weights, both in
// place, for one row's `range` of columns. Columns outside `visible` become 0 in both.
HWY_INLINE void weigh_row(float* scores,
                          float* d_weights,
                          TileRange range,
                          TileRange visible,
                          RowStatistics row) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool masked = visible != range;
  const auto first = hn::Set(d, static_cast<float>(visible.first));
  const auto last = hn::Set(d, static_cast<float>(visible.last));
  const auto shift = hn::Set(d, row.log2_sum);
  const auto row_delta = hn::Set(d, row.delta);
  for (int64_t j = range.first; j < range.last; j += lanes) {
    auto weight = exp2_vector(d, hn::Sub(hn::LoadU(d, scores + j), shift));
    auto d_score = hn::Mul(weight, hn::Sub(hn::LoadU(d, d_weights + j), row_delta));
    if (masked) {
      const auto column = hn::Iota(d, static_cast<float>(j));
      const auto seen = hn::And(hn::Ge(column, first), hn::Lt(column, last));
      weight = hn::IfThenElseZero(seen, weight);
      d_score = hn::IfThenElseZero(seen, d_score);
    }
    hn::StoreU(weight, d, scores + j);
    hn::StoreU(d_score, d, d_weights + j);
  }
}

struct SequenceHead {
  int64_t batch, head;
};

// A tile's queries of one head of a sequence against its packed keys. `d_queries` is the first row
// of sums of these queries.
template <typename T>
HWY_NOINLINE void differentiate_tile(const BackwardCall<T>& call,
                                     float* tiles,
                                     SequenceHead at_head,
                                     const ScoreTile& tile,
                                     float* d_queries) {
  const auto [batch, head] = at_head;
  const AttentionExtents& e = call.extents;
  const BackwardLayout& at = call.layout;
  const int64_t queries = tile.queries;
  const int64_t token = batch * e.sequence + tile.query;
  const float factor = static_cast<float>(static_cast<double>(e.scale) * kLog2E);
  pack_column_blocks<T>(
      {call.q.head(token, head), call.q.token_stride, queries, queries, e.head_size}, factor,
      tiles + at.queries);
  pack_column_blocks<T>(
      {call.d_o.head(token, head), call.d_o.token_stride, queries, queries, e.head_size}, 1.0f,
      tiles + at.d_outputs);
  const SequenceMask mask(e, call.positions, batch);
  float* weights = tiles + at.weights;
  float* d_weights = tiles + at.d_weights;

  ScoreRowBlock row_blocks[kMostRowBlocks];
  int count = query_row_blocks(mask, tile, row_blocks);
  for (const ScoreRowBlock* row_block = row_blocks; row_block < row_blocks + count; ++row_block) {
    const TileRange rows = row_block->rows;
    product_of_column_blocks({tiles + at.queries, e.head_size}, tiles + at.keys_transposed, rows,
                             row_block->columns, weights);
    product_of_column_blocks({tiles + at.d_outputs, e.head_size}, tiles + at.values_transposed,
                             rows, row_block->columns, d_weights);
    for (int64_t row = rows.first; row < rows.last; ++row) {
      const TileRange seen = visible_keys(mask, tile.query + row);
      const int64_t statistic = (token + row) * e.heads + head;
      weigh_row(weights + row * kKeyTile, d_weights + row * kKeyTile, row_block->columns,
                intersect({seen.first - tile.key, seen.last - tile.key}, row_block->columns),
                {static_cast<float>(static_cast<double>(call.lse[statistic]) * kLog2E),
                 call.workspace[statistic]});
    }
    add_product_with_column_blocks(
        Left<false>{d_weights + rows.first * kKeyTile + row_block->columns.first, kKeyTile},
        {tiles + at.keys, e.head_size}, rows.size(), row_block->columns,
        d_queries + rows.first * at.padded);
  }
  count = key_row_blocks(mask, tile, row_blocks);
  for (const ScoreRowBlock* row_block = row_blocks; row_block < row_blocks + count; ++row_block) {
    const TileRange rows = row_block->rows;
    const int64_t corner = row_block->columns.first * kKeyTile + rows.first;
    add_product_with_column_blocks(
        Left<true>{weights + corner, kKeyTile}, {tiles + at.d_outputs, e.head_size}, rows.size(),
        row_block->columns, tiles + at.d_values + rows.first * at.padded);
    add_product_with_column_blocks(Left<true>{d_weights + corner, kKeyTile},
                                   {tiles + at.queries, e.head_size}, rows.size(),
                                   row_block->columns, tiles + at.d_keys + rows.first * at.padded);
  }
}

// dK and dV of one tile of keys, and its contribution to dQ.
template <typename T>
HWY_NOINLINE void differentiate_key_tile(const BackwardCall<T>& call,
                                         float* tiles,
                                         int64_t group,
                                         int64_t tile,
                                         float* d_queries) {
  const AttentionExtents& e = call.extents;
  const BackwardLayout& at = call.layout;
  const int64_t batch = group / e.kv_heads;
  const int64_t kv_head = group % e.kv_heads;
  const int64_t heads_per_kv = e.heads / e.kv_heads;
  const int64_t key = tile * kKeyTile;
  const int64_t keys = std::min(kKeyTile, e.sequence - key);
  const int64_t padded_keys = round_up(keys, kScoreBlock);
  const int64_t token = batch * e.sequence + key;

  const HeadRows<T> k{call.k.head(token, kv_head), call.k.token_stride, keys, padded_keys,
                      e.head_size};
  const HeadRows<T> v{call.v.head(token, kv_head), call.v.token_stride, keys, padded_keys,
                      e.head_size};
  pack_transposed(k, tiles + at.keys_transposed);
  pack_transposed(v, tiles + at.values_transposed);
  pack_column_blocks(k, 1.0f, tiles + at.keys);
  std::fill_n(tiles + at.d_keys, kKeyTile * at.padded, 0.0f);
  std::fill_n(tiles + at.d_values, kKeyTile * at.padded, 0.0f);

  const SequenceMask mask(e, call.positions, batch);
  const TileRange blocks{visible_query_blocks(mask, key / kScoreBlock).first,
                         visible_query_blocks(mask, (key + keys - 1) / kScoreBlock).last};
  const TileRange queries{blocks.first * kScoreBlock / kQueryTile * kQueryTile,
                          std::min(blocks.last * kScoreBlock, e.sequence)};
  for (int64_t h = 0; h < heads_per_kv; ++h) {
    for (int64_t query = queries.first; query < queries.last; query += kQueryTile) {
      differentiate_tile(call, tiles, {batch, kv_head * heads_per_kv + h},
                         {query, std::min(kQueryTile, e.sequence - query), key},
                         d_queries + (h * e.sequence + query) * at.padded);
    }
  }
  // The packed queries are scaled by scale * log2(e); dK needs only scale.
  unpack_rows<T>(tiles + at.d_keys, keys, e.head_size, static_cast<float>(kLn2),
                 {call.d_k.head(token, kv_head), call.d_k.token_stride});
  unpack_rows<T>(tiles + at.d_values, keys, e.head_size, 1.0f,
                 {call.d_v.head(token, kv_head), call.d_v.token_stride});
}

// Writes rows [first, last) of [H / K, T] of a group's dQ.
template <typename T>
HWY_INLINE void write_d_queries(const BackwardCall<T>& call,
                                int64_t group,
                                TileRange rows,
                                const float* sums) {
  const AttentionExtents& e = call.extents;
  const int64_t heads_per_kv = e.heads / e.kv_heads;
  while (!rows.empty()) {
    const int64_t h = rows.first / e.sequence;
    const int64_t t = rows.first % e.sequence;
    const int64_t count = std::min(rows.size(), e.sequence - t);
    const int64_t token = group / e.kv_heads * e.sequence + t;
    const int64_t head = group % e.kv_heads * heads_per_kv + h;
    unpack_rows<T>(sums + rows.first * call.layout.padded, count, e.head_size, e.scale,
                   {call.d_q.head(token, head), call.d_q.token_stride});
    rows.first += count;
  }
}

template <typename T>
HWY_INLINE void differentiate(const BackwardCall<T>& call, int thread) {
  const AttentionExtents& e = call.extents;
  const Schedule& schedule = call.schedule;
  float* tiles = call.layout.thread_tiles(call.workspace, thread);
  for (int64_t group = 0; group < schedule.groups(); ++group) {
    const TileRange owned = schedule.owned_tiles(group, thread);
    if (owned.empty()) continue;
    float* sums = call.layout.d_queries_sum(call.workspace, schedule, group, thread);
    std::fill_n(sums, call.layout.d_queries_floats, 0.0f);
    for (int64_t tile = owned.first; tile < owned.last; ++tile) {
      differentiate_key_tile(call, tiles, group, tile, sums);
    }
    if (!schedule.shared(group)) {
      write_d_queries(call, group, {0, e.heads / e.kv_heads * e.sequence}, sums);
    }
  }
}
RIDGE_TARGETS(RIDGE_FLOATS, differentiate, BackwardCall, int)

// Adds up the partial dQ of groups that threads share, in the order of the threads.
template <typename T>
HWY_INLINE void add_partial_d_queries(const BackwardCall<T>& call, int thread) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const AttentionExtents& e = call.extents;
  const Schedule& schedule = call.schedule;
  const int64_t columns = call.layout.padded;
  const TileRange rows = part_of(e.heads / e.kv_heads * e.sequence, thread, schedule.threads());
  for (int64_t group = 0; group < schedule.groups(); ++group) {
    if (!schedule.shared(group)) continue;
    int last_owner = schedule.owner(group, 0);
    float* sums = call.layout.d_queries_sum(call.workspace, schedule, group, last_owner);
    for (int64_t tile = 1; tile < schedule.tiles(); ++tile) {
      const int owner = schedule.owner(group, tile);
      if (owner == last_owner) continue;
      last_owner = owner;
      const float* more = call.layout.d_queries_sum(call.workspace, schedule, group, owner);
      for (int64_t i = rows.first * columns; i < rows.last * columns; i += lanes) {
        hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::LoadU(d, more + i)), d, sums + i);
      }
    }
    write_d_queries(call, group, rows, sums);
  }
}
RIDGE_TARGETS(RIDGE_FLOATS, add_partial_d_queries, BackwardCall, int)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

Schedule key_schedule(const AttentionExtents& e, int threads) {
  return Schedule(e, Schedule::Axis::kKeys, kKeyTile, e.batch * e.kv_heads, threads);
}

}  // namespace

int64_t flash_attention_backward_workspace_bytes(const AttentionExtents& extents, int threads) {
  check_attention(extents, threads);
  const BackwardLayout layout(extents, key_schedule(extents, threads));
  return bytes_of<float>(layout.floats);
}

RIDGE_DISPATCH(RIDGE_FLOATS, find_delta, compute_delta, BackwardCall, int)
RIDGE_DISPATCH(RIDGE_FLOATS, find_gradients, differentiate, BackwardCall, int)
RIDGE_DISPATCH(RIDGE_FLOATS, add_partials, add_partial_d_queries, BackwardCall, int)
template <typename T>
void flash_attention_backward(const FlashAttentionBackward<T>& given) {
  check_attention(given.extents, given.threads);
  const Schedule schedule = key_schedule(given.extents, given.threads);
  const BackwardLayout layout(given.extents, schedule);
  const BackwardCall<T> call{given, schedule, layout};
  const auto sweep = [&](const auto& pass) {
    for_each_part(given.threads, [&](int64_t thread) { pass(static_cast<int>(thread)); });
  };
  sweep([&](int thread) { find_delta(call, thread); });
  sweep([&](int thread) { find_gradients(call, thread); });
  if (layout.slots == 2) sweep([&](int thread) { add_partials(call, thread); });
}
RIDGE_INSTANCES(RIDGE_FLOATS, void, flash_attention_backward, FlashAttentionBackward)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
