// SPDX-License-Identifier: Apache-2.0
// Flash attention forward: query rows stay, tiles of keys and values pass by, and each row keeps a
// running maximum and sum (online softmax), so that no score leaves the cache.
//
// Mapping: a group is one KV head of one sequence with up to 4 of its query heads; a unit of work
// is a group's query tile, at most 256 rows in all. Expected bound: FMA; exponentials are about a
// tenth of the products' time at E = 64, packing keys and values under a twentieth.
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/flash_attention/flash_attention.h"
#include "backends/cpu/kernels/flash_attention/plan.h"
#include "backends/cpu/kernels/flash_attention/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/flash_attention/forward.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h:
#include "backends/cpu/kernels/flash_attention/tiles-inl.h"
#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/typed_dispatch.h"
#include "hwy/highway.h"

#ifndef RIDGE_FLASH_ATTENTION_FORWARD_ONCE_
#define RIDGE_FLASH_ATTENTION_FORWARD_ONCE_
namespace ridge::backends::cpu {
namespace {

// Query rows that share one packing of a tile of keys and values. Packing is then about 6% of the
// time at E = 64 and a small T (measured; half of it cache misses), and the rows' queries and
// outputs (128 KiB at E = 64) stay in L2.
constexpr int64_t kRowsPerPass = 256;
constexpr float kLn2 = 0.6931471805599453f;

struct ForwardShape : HeadPasses {
  explicit ForwardShape(const AttentionExtents& e, int threads)
      : HeadPasses(e.heads, e.kv_heads),
        groups(e.batch * e.kv_heads * passes),
        query_tile(kRowsPerPass / heads_per_pass / kQueryTile * kQueryTile) {
    // With few groups smaller tiles even out what the threads get; packing then weighs more.
    while (query_tile > kScoreBlock && groups % threads != 0 &&
           groups * ceil_div(e.sequence, query_tile) < 4 * threads) {
      query_tile /= 2;
    }
  }
  int64_t groups;
  int64_t query_tile;
};

// Scratch of one thread, in floats; each part a multiple of a cache line.
struct ForwardScratch {
  explicit ForwardScratch(const AttentionExtents& e)
      : keys(0),
        values(keys + e.head_size * kKeyTile),
        queries(values + padded(e) * kKeyTile),
        outputs(queries + kRowsPerPass * padded(e)),
        scores(outputs + kRowsPerPass * padded(e)),
        maxima(scores + kQueryTile * kKeyTile),
        sums(maxima + kRowsPerPass),
        floats(sums + kRowsPerPass * kScoreBlock) {}
  static int64_t padded(const AttentionExtents& e) { return round_up(e.head_size, kScoreBlock); }
  int64_t keys;     // transposed [E, 64]
  int64_t values;   // panels [64, padded E]
  int64_t queries;  // per head and 64 rows: panels
  int64_t outputs;  // [rows, padded E]
  int64_t scores;   // [64, 64]
  int64_t maxima;   // [rows]
  int64_t sums;     // [rows, 16]: partial sums by vector lane
  int64_t floats;
};

template <typename T>
struct ForwardCall : FlashAttention<T> {
  const ForwardShape& shape;
  const Schedule& schedule;
};

}  // namespace
}  // namespace ridge::backends::cpu
#endif  // RIDGE_FLASH_ATTENTION_FORWARD_ONCE_

HWY_BEFORE_NAMESPACE();
namespace ridge::backends::cpu {
namespace HWY_NAMESPACE {

// One tile of at most 64 queries of one head against one tile of keys and values.
HWY_NOINLINE void attend_tile(const AttentionExtents& extents,
                              int64_t query,
                              int64_t queries,
                              int64_t key,
                              const float* query_panels,
                              const float* keys,
                              const float* values,
                              const SoftmaxRows& state) {
  ScoreStrip strips[kMaxStrips];
  const int count = query_strips(extents, query, queries, key, strips);
  for (const ScoreStrip* strip = strips; strip < strips + count; ++strip) {
    product_of_panels(query_panels, extents.head_size, keys, strip->rows, strip->columns,
                      state.scores);
    // Two sweeps: each is a run of independent rows,
    // where one would chain maximum, exponential and sum.
    for (int64_t row = strip->rows.first; row < strip->rows.last; ++row) {
      const TileRange seen = visible_keys(extents, query + row);
      raise_maximum(state, row, strip->columns,
                    intersect({seen.first - key, seen.last - key}, strip->columns));
    }
    for (int64_t row = strip->rows.first; row < strip->rows.last; ++row) {
      weigh_scores(state, row, strip->columns);
    }
    const Left<false> weights{state.scores + strip->rows.first * kKeyTile + strip->columns.first,
                              kKeyTile};
    add_product_with_panels(weights, values, extents.head_size, strip->rows.size(), strip->columns,
                            state.outputs + strip->rows.first * state.columns);
  }
}

// Divides by the sums and writes outputs and lse of `queries` rows from `query` of one head.
template <typename T>
HWY_NOINLINE void finish_rows(const ForwardCall<T>& call,
                              const SoftmaxRows& state,
                              int64_t token,
                              int64_t head,
                              int64_t queries) {
  const Wide d;
  const AttentionExtents& e = call.extents;
  for (int64_t row = 0; row < queries; ++row) {
    const float sum = hn::GetLane(hn::SumOfLanes(d, hn::LoadU(d, state.sums + row * kScoreBlock)));
    unpack_rows(state.outputs + row * state.columns, 1, e.head_size, 1.0f / sum,
                call.o.data + (token + row) * call.o.token_stride + head * call.o.head_stride,
                call.o.token_stride);
    if (call.lse != nullptr) {
      call.lse[(token + row) * e.heads + head] = state.maxima[row] * kLn2 + std::log(sum);
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
  const ForwardScratch at(e);
  const int64_t columns = padded_head_size(e.head_size);
  const int64_t pass = group % shape.passes;
  const int64_t kv_head = group / shape.passes % e.kv_heads;
  const int64_t batch = group / shape.passes / e.kv_heads;
  const int64_t first_head = kv_head * shape.heads_per_kv + pass * shape.heads_per_pass;
  const int64_t heads =
      std::min(shape.heads_per_pass, shape.heads_per_kv - pass * shape.heads_per_pass);
  const TileRange rows{tile * shape.query_tile,
                       std::min((tile + 1) * shape.query_tile, e.sequence)};
  const int64_t token = batch * e.sequence;
  const int64_t rows_per_head = std::max(shape.query_tile, kQueryTile);

  const float factor = static_cast<float>(static_cast<double>(e.scale) * kLog2E);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t row = rows.first; row < rows.last; row += kQueryTile) {
      const int64_t count = std::min(kQueryTile, rows.last - row);
      pack_panels(
          call.q.data + (token + row) * call.q.token_stride + (first_head + h) * call.q.head_stride,
          call.q.token_stride, count, count, e.head_size, factor,
          scratch + at.queries + (h * rows_per_head + row - rows.first) * columns);
    }
  }
  const int64_t state_rows = heads * rows_per_head;
  std::fill_n(scratch + at.outputs, state_rows * columns, 0.0f);
  std::fill_n(scratch + at.sums, state_rows * kScoreBlock, 0.0f);
  std::fill_n(scratch + at.maxima, state_rows, kNoMaximum);

  const TileRange blocks{visible_key_blocks(e, rows.first / kScoreBlock).first,
                         visible_key_blocks(e, (rows.last - 1) / kScoreBlock).last};
  const int64_t first_key = blocks.first * kScoreBlock / kKeyTile * kKeyTile;
  const int64_t last_key = std::min(blocks.last * kScoreBlock, e.sequence);
  for (int64_t key = first_key; key < last_key; key += kKeyTile) {
    const int64_t keys = std::min(kKeyTile, last_key - key);
    const int64_t padded_keys = round_up(keys, kScoreBlock);
    pack_transposed(
        call.k.data + (token + key) * call.k.token_stride + kv_head * call.k.head_stride,
        call.k.token_stride, keys, padded_keys, e.head_size, scratch + at.keys);
    pack_panels(call.v.data + (token + key) * call.v.token_stride + kv_head * call.v.head_stride,
                call.v.token_stride, keys, padded_keys, e.head_size, 1.0f, scratch + at.values);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t row = rows.first; row < rows.last; row += kQueryTile) {
        const int64_t state_row = h * rows_per_head + row - rows.first;
        const SoftmaxRows state{scratch + at.scores, scratch + at.maxima + state_row,
                                scratch + at.sums + state_row * kScoreBlock,
                                scratch + at.outputs + state_row * columns, columns};
        attend_tile(e, row, std::min(kQueryTile, rows.last - row), key,
                    scratch + at.queries + state_row * columns, scratch + at.keys,
                    scratch + at.values, state);
      }
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t state_row = h * rows_per_head;
    const SoftmaxRows state{nullptr, scratch + at.maxima + state_row,
                            scratch + at.sums + state_row * kScoreBlock,
                            scratch + at.outputs + state_row * columns, columns};
    finish_rows(call, state, token + rows.first, first_head + h, rows.size());
  }
}

template <typename T>
HWY_INLINE void attend(const ForwardCall<T>& call, int thread) {
  float* scratch = call.workspace + thread * ForwardScratch(call.extents).floats;
  for (int64_t group = 0; group < call.schedule.groups(); ++group) {
    const TileRange tiles = call.schedule.owned_tiles(group, thread);
    for (int64_t tile = tiles.first; tile < tiles.last; ++tile) {
      attend_unit(call, scratch, group, tile);
    }
  }
}

RIDGE_TYPED_TARGETS(attend, ForwardCall, int)

}  // namespace HWY_NAMESPACE
}  // namespace ridge::backends::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ridge::backends::cpu {
namespace {

RIDGE_TYPED_DISPATCH(run_thread, attend, ForwardCall, int)

}  // namespace

int64_t flash_attention_forward_workspace_bytes(const AttentionExtents& extents, int threads) {
  check_attention(extents, threads);
  return threads * ForwardScratch(extents).floats * static_cast<int64_t>(sizeof(float));
}

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

template void flash_attention_forward(const FlashAttention<float>&);
template void flash_attention_forward(const FlashAttention<uint16_t>&);

}  // namespace ridge::backends::cpu
#endif  // HWY_ONCE
