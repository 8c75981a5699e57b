// SPDX-License-Identifier: Apache-2.0
// The block counts of flash attention in closed form, and the distribution of its tiles to threads.
#include "backends/cpu/kernels/flash_attention/plan.h"

#include <cmath>

#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

// Bounds that keep sizes in 63 bits. The largest size, the dQ sums of all threads, is at most
// 2 slots x 2^12 threads x 2^39 rows x 256 columns x 4 bytes = 2^62.
constexpr int64_t kMaxTokens = int64_t{1} << 31;
constexpr int64_t kMaxHeads = int64_t{1} << 16;
constexpr int64_t kMaxRows = int64_t{1} << 39;  // tokens x heads
constexpr int kMaxThreads = 1 << 12;

// Score blocks of the first `blocks` query blocks: sum over b of min(b + 1, reach + 1).
int64_t causal_blocks(int64_t blocks, int64_t reach) {
  const int64_t ramp = std::min(blocks, reach + 1);
  return ramp * (ramp + 1) / 2 + (blocks - ramp) * (reach + 1);
}

// Appends rows that attend to `columns`, to the last row block or as a new one; returns the number
// of row blocks.
int append_row_block(ScoreRowBlock* row_blocks, int count, TileRange rows, TileRange columns) {
  if (columns.empty()) return count;
  if (count > 0 && row_blocks[count - 1].columns == columns &&
      row_blocks[count - 1].rows.last == rows.first) {
    row_blocks[count - 1].rows.last = rows.last;
    return count;
  }
  row_blocks[count] = {rows, columns};
  return count + 1;
}

// Converts blocks to positions relative to `origin`, cut to [0, limit).
TileRange relative_positions(TileRange blocks, int64_t origin, int64_t limit) {
  return intersect({blocks.first * kScoreBlock - origin, blocks.last * kScoreBlock - origin},
                   {0, limit});
}

}  // namespace

int query_row_blocks(const SequenceMask& mask, const ScoreTile& tile, ScoreRowBlock* row_blocks) {
  int count = 0;
  for (int64_t row = 0; row < tile.queries; row += kScoreBlock) {
    const TileRange blocks = visible_key_blocks(mask, (tile.query + row) / kScoreBlock);
    count = append_row_block(row_blocks, count, {row, std::min(row + kScoreBlock, tile.queries)},
                             relative_positions(blocks, tile.key, kKeyTile));
  }
  return count;
}

int key_row_blocks(const SequenceMask& mask, const ScoreTile& tile, ScoreRowBlock* row_blocks) {
  int count = 0;
  const int64_t keys = std::min(kKeyTile, score_blocks(mask.extents) * kScoreBlock - tile.key);
  for (int64_t row = 0; row < keys; row += kScoreBlock) {
    const TileRange blocks = visible_query_blocks(mask, (tile.key + row) / kScoreBlock);
    count = append_row_block(row_blocks, count, {row, row + kScoreBlock},
                             relative_positions(blocks, tile.query, tile.queries));
  }
  return count;
}

void check_attention(const AttentionExtents& e, int threads) {
  if (e.batch < 1 || e.sequence < 1 || e.batch > kMaxTokens / e.sequence) {
    throw usage_error("[flash_attention] expected 1 to {} tokens, got batch {} x sequence {}",
                      kMaxTokens, e.batch, e.sequence);
  }
  if (e.kv_heads < 1 || e.heads < 1 || e.heads > kMaxHeads || e.heads % e.kv_heads != 0) {
    throw usage_error(
        "[flash_attention] expected heads (at most {}) to be a multiple of KV heads, got {} and {}",
        kMaxHeads, e.heads, e.kv_heads);
  }
  if (e.batch * e.sequence * e.heads > kMaxRows) {
    throw usage_error("[flash_attention] expected at most {} tokens x heads, got {}", kMaxRows,
                      e.batch * e.sequence * e.heads);
  }
  if (e.head_size < 8 || e.head_size > kMaxHeadSize || e.head_size % 8 != 0) {
    throw usage_error(
        "[flash_attention] expected a head size that is a multiple of 8 up to {}, got {}",
        kMaxHeadSize, e.head_size);
  }
  if (e.window < 0 || (e.window > 0 && !e.causal)) {
    throw usage_error(
        "[flash_attention] expected window 0, or a positive one with causal attention, got {} ({})",
        e.window, e.causal ? "causal" : "not causal");
  }
  if (!std::isfinite(e.scale))
    throw usage_error("[flash_attention] expected a finite scale, got {}", e.scale);
  if (threads < 1 || threads > kMaxThreads) {
    throw usage_error("[flash_attention] expected 1 to {} threads, got {}", kMaxThreads, threads);
  }
}

int64_t flash_attention_visited_scores(const AttentionExtents& extents) {
  check_attention(extents, 1);
  const int64_t blocks = score_blocks(extents);
  const int64_t missing_rows = blocks * kScoreBlock - extents.sequence;
  const int64_t last_row_blocks = visible_key_blocks(extents, blocks - 1).size();
  const int64_t visited =
      extents.causal ? causal_blocks(blocks, block_reach(extents)) : blocks * blocks;
  return kScoreBlock * (kScoreBlock * visited - missing_rows * last_row_blocks);
}

int64_t flash_attention_backward_visited_scores(const AttentionExtents& extents) {
  return flash_attention_visited_scores(extents);
}

Schedule::Schedule(const AttentionExtents& extents,
                   Axis axis,
                   int64_t tile,
                   int64_t groups,
                   int threads)
    : extents_(extents),
      axis_(axis),
      tile_blocks_(tile / kScoreBlock),
      tiles_(ceil_div(extents.sequence, tile)),
      groups_(groups),
      threads_(threads) {}

int64_t Schedule::cost_before(int64_t tile) const {
  const int64_t all = score_blocks(extents_);
  const int64_t blocks = std::min(all, tile * tile_blocks_);
  if (!extents_.causal) return blocks * all;
  const int64_t reach = block_reach(extents_);
  if (axis_ == Axis::kQueries) return causal_blocks(blocks, reach);
  // min(blocks - b, reach + 1) query blocks attend to key block b: the ramp of the query side,
  // backwards.
  return causal_blocks(all, reach) - causal_blocks(all - blocks, reach);
}

int Schedule::owner(int64_t group, int64_t tile) const {
  // The thread whose share of the total cost contains the tile's middle. Doubles are exact up to
  // 2^53; beyond, equal arguments still yield equal values.
  const double group_cost = static_cast<double>(cost_before(tiles_));
  const double middle = 0.5 * static_cast<double>(cost_before(tile) + cost_before(tile + 1));
  const double share =
      (static_cast<double>(group) + middle / group_cost) / static_cast<double>(groups_);
  return std::min(threads_ - 1, static_cast<int>(share * threads_));
}

TileRange Schedule::owned_tiles(int64_t group, int thread) const {
  if (owner(group, 0) > thread || owner(group, tiles_ - 1) < thread) return {0, 0};
  TileRange range{0, tiles_};
  while (range.first < tiles_ && owner(group, range.first) < thread) ++range.first;
  range.last = range.first;
  while (range.last < tiles_ && owner(group, range.last) == thread) ++range.last;
  return range;
}

}  // namespace ridge::backends::cpu
