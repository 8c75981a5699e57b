// SPDX-License-Identifier: Apache-2.0
// Flash attention forward: query rows stay in cache, tiles of keys and values are streamed, and
// each row keeps a running maximum and sum (online softmax), so that no score leaves the cache.
//
// Mapping: a group is one KV head of one sequence with up to 4 of its query heads; a unit of work
// is a group's query tile, at most 256 rows in total. Expected bound: FMA; exponentials are about a
// tenth of the GEMMs' time at E = 64, packing keys and values under a twentieth.
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/flash_attention/flash_attention.h"
#include "backends/cpu/kernels/flash_attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/flash_attention/forward.cc"
#include "backends/cpu/kernels/flash_attention/targets.h"

#include "backends/cpu/kernels/flash_attention/tiles-inl.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"

#ifndef RIDGE_FLASH_ATTENTION_FORWARD_ONCE_
#define RIDGE_FLASH_ATTENTION_FORWARD_ONCE_
namespace ridge::backends::cpu {
namespace {

// Query rows that share one packing of a tile of keys and values. Packing is then about 6% of the
// time at E = 64 and a small T (measured; half of it cache misses), and the rows' queries and
// outputs (128 KiB at E = 64) stay in L2.
constexpr int64_t kRowsPerPass = 256;

struct ForwardShape : HeadPasses {
  explicit ForwardShape(const AttentionExtents& e, int threads)
      : HeadPasses(e.heads, e.kv_heads),
        groups(e.batch * e.kv_heads * passes),
        query_tile(kRowsPerPass / heads_per_pass / kQueryTile * kQueryTile) {
    // With few groups, smaller tiles balance the threads better; packing then takes a larger share.
    while (query_tile > kScoreBlock && groups % threads != 0 &&
           groups * ceil_div(e.sequence, query_tile) < 4 * threads) {
      query_tile /= 2;
    }
  }
  int64_t groups;
  int64_t query_tile;
};

// Scratch of one thread.
inline int64_t scratch_floats(const AttentionExtents& e) {
  return AttentionScratch(e.head_size, kRowsPerPass).floats;
}

template <typename T>
struct ForwardCall : FlashAttention<T> {
  const ForwardShape& shape;
  const Schedule& schedule;
};

}  // namespace
}  // namespace ridge::backends::cpu
#endif  // RIDGE_FLASH_ATTENTION_FORWARD_ONCE_

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu::HWY_NAMESPACE {

// One tile of queries of one head against one tile of keys and values.
HWY_NOINLINE void attend_tile(const SequenceMask& mask,
                              const ScoreTile& at,
                              const PackedTiles& tiles,
                              const SoftmaxRows& state) {
  const auto seen = [&](int64_t row) {
    const TileRange keys = visible_keys(mask, at.query + row);
    return TileRange{keys.first - at.key, keys.last - at.key};
  };
  ScoreRowBlock row_blocks[kMostRowBlocks];
  const int count = query_row_blocks(mask, at, row_blocks);
  for (const ScoreRowBlock* row_block = row_blocks; row_block < row_blocks + count; ++row_block)
    attend_row_block(tiles, *row_block, seen, state);
}

// Divides by the sums and writes outputs and lse of `queries` rows of one head, from `token` on.
template <typename T>
HWY_NOINLINE void finish_rows(const ForwardCall<T>& call,
                              const SoftmaxRows& state,
                              int64_t token,
                              int64_t head,
                              int64_t queries) {
  const AttentionExtents& e = call.extents;
  for (int64_t row = 0; row < queries; ++row) {
    const float sum = finish_row(state, row, e.head_size, call.o.head(token + row, head));
    if (call.lse != nullptr) {
      call.lse[(token + row) * e.heads + head] =
          state.maxima[row] * static_cast<float>(kLn2) + std::log(sum);
    }
  }
}

// One unit of work.
template <typename T>
HWY_NOINLINE void attend_unit(const ForwardCall<T>& call,
                              float* scratch,
                              int64_t group,
                              int64_t tile) {
  const AttentionExtents& e = call.extents;
  const ForwardShape& shape = call.shape;
  const AttentionScratch at(e.head_size, kRowsPerPass);
  const int64_t pass = group % shape.passes;
  const int64_t kv_head = group / shape.passes % e.kv_heads;
  const int64_t batch = group / shape.passes / e.kv_heads;
  const int64_t first_head = kv_head * shape.heads_per_kv + pass * shape.heads_per_pass;
  const int64_t heads =
      std::min(shape.heads_per_pass, shape.heads_per_kv - pass * shape.heads_per_pass);
  const TileRange rows{tile * shape.query_tile,
                       std::min((tile + 1) * shape.query_tile, e.sequence)};
  const int64_t token = batch * e.sequence;
  const SequenceMask mask(e, call.positions, batch);
  const int64_t rows_per_head = std::max(shape.query_tile, kQueryTile);
  // Calls body(head, query, queries, row of the scratch) for each head's tiles of queries.
  const auto for_each_tile = [&](const auto& body) HWY_ATTR {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t row = rows.first; row < rows.last; row += kQueryTile) {
        body(first_head + h, row, std::min(kQueryTile, rows.last - row),
             h * rows_per_head + row - rows.first);
      }
    }
  };

  const float factor = static_cast<float>(static_cast<double>(e.scale) * kLog2E);
  for_each_tile([&](int64_t head, int64_t query, int64_t queries, int64_t row) HWY_ATTR {
    pack_column_blocks<T>(
        {call.q.head(token + query, head), call.q.token_stride, queries, queries, e.head_size},
        factor, scratch + at.queries + row * at.columns);
  });
  clear_rows(softmax_rows(at, scratch, 0), heads * rows_per_head);

  const TileRange blocks{visible_key_blocks(mask, rows.first / kScoreBlock).first,
                         visible_key_blocks(mask, (rows.last - 1) / kScoreBlock).last};
  const int64_t first_key = blocks.first * kScoreBlock / kKeyTile * kKeyTile;
  const int64_t last_key = std::min(blocks.last * kScoreBlock, e.sequence);
  for (int64_t key = first_key; key < last_key; key += kKeyTile) {
    const int64_t keys = std::min(kKeyTile, last_key - key);
    const int64_t padded = round_up(keys, kScoreBlock);
    const T* k = call.k.head(token + key, kv_head);
    const T* v = call.v.head(token + key, kv_head);
    pack_transposed<T>({k, call.k.token_stride, keys, padded, e.head_size}, scratch + at.keys);
    pack_column_blocks<T>({v, call.v.token_stride, keys, padded, e.head_size}, 1.0f,
                          scratch + at.values);
    for_each_tile([&](int64_t, int64_t query, int64_t queries, int64_t row) HWY_ATTR {
      const PackedTiles tiles{scratch + at.queries + row * at.columns, scratch + at.keys,
                              scratch + at.values, e.head_size};
      attend_tile(mask, {query, queries, key}, tiles, softmax_rows(at, scratch, row));
    });
  }
  for (int64_t h = 0; h < heads; ++h) {
    finish_rows(call, softmax_rows(at, scratch, h * rows_per_head), token + rows.first,
                first_head + h, rows.size());
  }
}

template <typename T>
HWY_INLINE void attend(const ForwardCall<T>& call, int thread) {
  float* scratch = call.workspace + thread * scratch_floats(call.extents);
  for (int64_t group = 0; group < call.schedule.groups(); ++group) {
    const TileRange tiles = call.schedule.owned_tiles(group, thread);
    for (int64_t tile = tiles.first; tile < tiles.last; ++tile) {
      attend_unit(call, scratch, group, tile);
    }
  }
}
RIDGE_TARGETS(RIDGE_FLOATS, attend, ForwardCall, int)

}  // namespace ridge::backends::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {

int64_t flash_attention_forward_workspace_bytes(const AttentionExtents& extents, int threads) {
  check_attention(extents, threads);
  return bytes_of<float>(threads * scratch_floats(extents));
}

RIDGE_DISPATCH(RIDGE_FLOATS, run_thread, attend, ForwardCall, int)
template <typename T>
void flash_attention_forward(const FlashAttention<T>& given) {
  const AttentionExtents& e = given.extents;
  check_attention(e, given.threads);
  const ForwardShape shape(e, given.threads);
  const Schedule schedule(e, Schedule::Axis::kQueries, shape.query_tile, shape.groups,
                          given.threads);
  const ForwardCall<T> call{given, shape, schedule};
  for_each_part(given.threads, [&](int64_t thread) { run_thread(call, static_cast<int>(thread)); });
}
RIDGE_INSTANCES(RIDGE_FLOATS, void, flash_attention_forward, FlashAttention)

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
