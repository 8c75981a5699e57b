// SPDX-License-Identifier: Apache-2.0
// Which blocks of scores are computed, and by which thread: index arithmetic shared by both passes
// of flash attention and by their cost.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/flash_attention/flash_attention.h"
#include "backends/kernels/document_begin.h"
#include "base/shape.h"

namespace ridge::backends::cpu {

// Throws a usage Error that names the rule that `extents` or `threads` violates.
void check_attention(const AttentionExtents& extents, int threads);

struct TileRange {
  int64_t first = 0;
  int64_t last = 0;  // exclusive
  bool empty() const { return first >= last; }
  int64_t size() const { return last - first; }
  bool operator==(const TileRange&) const = default;
};

inline TileRange intersect(TileRange a, TileRange b) {
  return {std::max(a.first, b.first), std::min(a.last, b.last)};
}

// The query heads of a KV head, split into passes of at most 4 heads, which share each packing of
// its keys and values.
struct HeadPasses {
  HeadPasses(int64_t heads, int64_t kv_heads)
      : heads_per_kv(heads / kv_heads),
        passes(ceil_div(heads_per_kv, kMost)),
        heads_per_pass(ceil_div(heads_per_kv, passes)) {}
  static constexpr int64_t kMost = 4;
  int64_t heads_per_kv;
  int64_t passes;
  int64_t heads_per_pass;
};

// Scratch of a thread that computes `rows` query rows, in floats. Each part is a multiple of a
// cache line.
struct AttentionScratch {
  AttentionScratch(int64_t head_size, int64_t query_rows)
      : columns(round_up(head_size, kScoreBlock)),
        rows(query_rows),
        values(head_size * kKeyTile),
        queries(values + columns * kKeyTile),
        outputs(queries + rows * columns),
        scores(outputs + rows * columns),
        maxima(scores + kQueryTile * kKeyTile),
        sums(maxima + rows),
        floats(sums + rows * kScoreBlock) {}
  int64_t columns;   // E, padded
  int64_t rows;      // all heads have so many together
  int64_t keys = 0;  // transposed [E, 64]
  int64_t values;    // column blocks [64, columns]
  int64_t queries;   // per head and 64 rows: column blocks [64, columns]
  int64_t outputs;   // [rows, columns]
  int64_t scores;    // [64, 64]
  int64_t maxima;    // [rows]
  int64_t sums;      // [rows, 16]: partial sums by vector lane
  int64_t floats;
};

inline int64_t score_blocks(const AttentionExtents& extents) {
  return ceil_div(extents.sequence, kScoreBlock);
}

// How many key blocks before its own a query block attends to. Query block b starts at query 16 b,
// which attends to keys from 16 b - window + 1 on, so to blocks from b - ceil((window - 1) / 16)
// on.
inline int64_t block_reach(const AttentionExtents& extents) {
  if (extents.window == 0) return score_blocks(extents) - 1;
  return ceil_div(std::min(extents.window, extents.sequence) - 1, kScoreBlock);
}

// The queries of one sequence see the keys that it leaves.
struct SequenceMask {
  // NOLINTNEXTLINE(google-explicit-constructor): without documents, the extents are the mask.
  SequenceMask(const AttentionExtents& of) : extents(of) {}
  // `all_positions` of all sequences, or null.
  SequenceMask(const AttentionExtents& of, const int32_t* all_positions, int64_t sequence)
      : extents(of),
        positions(all_positions == nullptr ? nullptr : all_positions + sequence * of.sequence) {}

  // The first key of a query's document. It never falls from one query to the next.
  int64_t begin(int64_t query) const {
    return positions == nullptr ? 0 : document_begin(query, positions[query]);
  }
  int64_t begin_block(int64_t query_block) const {
    return begin(query_block * kScoreBlock) / kScoreBlock;
  }

  const AttentionExtents& extents;
  const int32_t* positions = nullptr;
};

inline TileRange visible_key_blocks(const SequenceMask& mask, int64_t query_block) {
  const AttentionExtents& extents = mask.extents;
  if (!extents.causal) return {0, score_blocks(extents)};
  return {std::max(mask.begin_block(query_block), query_block - block_reach(extents)),
          query_block + 1};
}

// The query blocks that attend to a key block.
inline TileRange visible_query_blocks(const SequenceMask& mask, int64_t key_block) {
  const AttentionExtents& extents = mask.extents;
  if (!extents.causal) return {0, score_blocks(extents)};
  TileRange range{key_block, std::min(score_blocks(extents), key_block + block_reach(extents) + 1)};
  if (mask.positions == nullptr) return range;
  // The blocks from key_block on whose first query's document has begun by key_block.
  int64_t hidden = range.last;
  while (range.first < hidden) {
    const int64_t middle = range.first + (hidden - range.first) / 2;
    if (mask.begin_block(middle) <= key_block)
      range.first = middle + 1;
    else
      hidden = middle;
  }
  return {key_block, hidden};
}

// The keys that one query attends to.
inline TileRange visible_keys(const SequenceMask& mask, int64_t query) {
  const AttentionExtents& extents = mask.extents;
  if (!extents.causal) return {0, extents.sequence};
  const int64_t begin = mask.begin(query);
  if (extents.window == 0) return {begin, query + 1};
  return {std::max(begin, query - std::min(extents.window, extents.sequence) + 1), query + 1};
}

// Part of a tile of scores whose rows attend to the same columns; positions are relative to the
// tile.
struct ScoreRowBlock {
  TileRange rows;
  TileRange columns;
};
inline constexpr int kMostRowBlocks = 4;
static_assert(kKeyTile == kMostRowBlocks * kScoreBlock &&
              kQueryTile == kMostRowBlocks * kScoreBlock);

// A tile of `queries` queries (at most kQueryTile) from `query` on and kKeyTile keys from `key` on,
// both multiples of kScoreBlock.
struct ScoreTile {
  int64_t query;
  int64_t queries;
  int64_t key;
};

// The visited blocks of a tile as row blocks of queries; returns the number of row blocks. Keys
// come in whole blocks, also past the end of the sequence; queries end at the sequence.
int query_row_blocks(const SequenceMask& mask, const ScoreTile& tile, ScoreRowBlock* row_blocks);
// The same blocks as row blocks of keys: rows are keys, columns are queries.
int key_row_blocks(const SequenceMask& mask, const ScoreTile& tile, ScoreRowBlock* row_blocks);

// The work is a list of groups (a KV head of a sequence, with some of its query heads) that have
// the same tiles. Each thread owns one contiguous stretch of the list, cut so that costs (in score
// blocks) differ by about one tile.
class Schedule {
 public:
  enum class Axis { kQueries, kKeys };

  // `tile` positions per tile, a multiple of kScoreBlock.
  Schedule(const AttentionExtents& extents, Axis axis, int64_t tile, int64_t groups, int threads);

  int64_t groups() const { return groups_; }
  int64_t tiles() const { return tiles_; }
  int threads() const { return threads_; }
  // The thread that computes a tile; ascends with (group, tile).
  int owner(int64_t group, int64_t tile) const;
  // The tiles of `group` that `thread` owns.
  TileRange owned_tiles(int64_t group, int thread) const;
  // Whether several threads work on `group`.
  bool shared(int64_t group) const { return owner(group, 0) != owner(group, tiles_ - 1); }

 private:
  // Score blocks of one group in the tiles before `tile`.
  int64_t cost_before(int64_t tile) const;

  AttentionExtents extents_;
  Axis axis_;
  int64_t tile_blocks_;
  int64_t tiles_;
  int64_t groups_;
  int threads_;
};

}  // namespace ridge::backends::cpu
