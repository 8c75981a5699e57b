// SPDX-License-Identifier: Apache-2.0
// The tiles that flash attention visits, and their order: integer arithmetic shared by kernels,
// launches and costs. Contains no kernel.
#pragma once

#include <cstdint>

#include "backends/kernels/document_begin.h"

#ifdef __CUDACC__
#define RIDGE_BOTH __host__ __device__ inline
#else
#define RIDGE_BOTH inline
#endif

namespace ridge::backends::cuda {

RIDGE_BOTH int ceil_div(int a, int b) { return (a + b - 1) / b; }

// The keys that a query attends to. window 0 means no window; a window needs causal.
struct Visibility {
  static constexpr bool kDocuments = false;

  int sequence = 0;
  int causal = 0;
  int window = 0;
};

// The same in rows that documents may share (causal).
struct DocumentVisibility : Visibility {
  static constexpr bool kDocuments = true;

  // Each token's position in its document, in the device's memory: for kernels alone. Null: each
  // row is one document.
  const int32_t* positions = nullptr;

  // The visibility in row `batch`, if `positions` begins with the first row.
  RIDGE_BOTH DocumentVisibility in_row(int batch) const {
    DocumentVisibility row = *this;
    if (positions != nullptr) row.positions += static_cast<int64_t>(batch) * sequence;
    return row;
  }
  // The first key of a query's document; it never falls from one query to the next. Queries outside
  // the sequence have the first key of the nearest inside.
  RIDGE_BOTH int document_first(int query) const {
    if (positions == nullptr) return 0;
    const int inside = query < 0 ? 0 : query < sequence ? query : sequence - 1;
    return static_cast<int>(document_begin(inside, positions[inside]));
  }
  // The end of a key's document.
  RIDGE_BOTH int document_end(int key) const {
    if (positions == nullptr) return sequence;
    int first = key + 1, end = sequence;  // the first query that begins after `key` lies in here
    while (first < end) {
      const int middle = first + (end - first) / 2;
      if (document_first(middle) > key) {
        end = middle;
      } else {
        first = middle + 1;
      }
    }
    return end;
  }
};

RIDGE_BOTH int less_of(int a, int b) { return a < b ? a : b; }
RIDGE_BOTH int more_of(int a, int b) { return a > b ? a : b; }

struct BlockRange {
  int begin = 0;
  int end = 0;  // exclusive
};

// Blocks of `size` keys that some query in [first, last] attends to.
template <class V>
RIDGE_BOTH BlockRange key_blocks(const V& v, int first, int last, int size) {
  BlockRange range;
  const int limit = v.causal && last + 1 < v.sequence ? last + 1 : v.sequence;
  range.end = ceil_div(limit, size);
  range.begin = v.window > 0 && first >= v.window ? (first - v.window + 1) / size : 0;
  if constexpr (V::kDocuments) range.begin = more_of(range.begin, v.document_first(first) / size);
  return range;
}

// The blocks among them that every query in [first, last] attends to completely.
template <class V>
RIDGE_BOTH BlockRange whole_key_blocks(const V& v, int first, int last, int size) {
  BlockRange range;
  const int limit = v.causal && first + 1 < v.sequence ? first + 1 : v.sequence;
  range.end = limit / size;
  range.begin = v.window > 0 && last >= v.window ? ceil_div(last - v.window + 1, size) : 0;
  if constexpr (V::kDocuments)
    range.begin = more_of(range.begin, ceil_div(v.document_first(last), size));
  return range;
}

// Blocks of `size` queries that attend to some key in [first, last].
template <class V>
RIDGE_BOTH BlockRange query_blocks(const V& v, int first, int last, int size) {
  BlockRange range;
  range.begin = v.causal ? first / size : 0;
  const int limit = v.window > 0 && last + v.window < v.sequence ? last + v.window : v.sequence;
  range.end = ceil_div(limit, size);
  if constexpr (V::kDocuments) range.end = less_of(range.end, ceil_div(v.document_end(last), size));
  return range;
}

// The blocks among them in which every query attends to all keys in [first, last]; empty if last is
// past the end.
template <class V>
RIDGE_BOTH BlockRange whole_query_blocks(const V& v, int first, int last, int size) {
  BlockRange range;
  if (last >= v.sequence) return range;
  range.begin = v.causal ? ceil_div(last, size) : 0;
  const int limit = v.window > 0 && first + v.window < v.sequence ? first + v.window : v.sequence;
  range.end = limit / size;
  if (v.window == 0) range.end = ceil_div(v.sequence, size);  // queries past the end have no effect
  if constexpr (V::kDocuments) {
    const int document_end = v.document_end(first);
    if (document_end < v.sequence) range.end = less_of(range.end, document_end / size);
  }
  return range;
}

// The number of rows by which tiles of `warpgroups` x 64 queries start before the sequence, so that
// they end with it: if the sequence is not a multiple of the tile, the first tile is the partial
// one. In causal attention it is the shortest, and warpgroups without rows idle no longer than it
// takes.
RIDGE_BOTH int tile_shift(int sequence, int warpgroups) {
  const int rest = ceil_div(sequence, 64) % warpgroups;
  return rest == 0 ? 0 : 64 * (warpgroups - rest);
}

RIDGE_BOTH bool contains(const BlockRange& range, int block) {
  return block >= range.begin && block < range.end;
}

// The launch order of tiles: heads are grouped into sections whose keys and values fit the L2 cache
// together; within a section the longest tiles come first, so that the last tiles to finish are
// short.
struct TileOrder {
  int blocks = 1;  // tiles per head
  int heads = 1;   // heads in the launch
  int heads_per_section = 1;
  int descending = 0;  // 1: the last block is the longest

  RIDGE_BOTH int tiles() const { return blocks * heads; }
  RIDGE_BOTH void locate(int index, int* head, int* block) const {
    const int section_tiles = blocks * heads_per_section;
    const int section = index / section_tiles;
    const int within = index - section * section_tiles;
    const int first = section * heads_per_section;
    const int count = heads - first < heads_per_section ? heads - first : heads_per_section;
    const int rank = within / count;
    *head = first + within - rank * count;
    *block = descending ? blocks - 1 - rank : rank;
  }
};

// The memory layout of dS between key tiles and query tiles: images of 64 queries x 128 keys,
// ordered by query block, then by key block. For causal heads without a window only the triangle is
// stored.
template <class V>
struct SpillLayoutOf {
  static constexpr int kQueries = 64;
  static constexpr int kKeys = 128;
  static constexpr int kImageBytes = kQueries * kKeys * 2;

  V visibility;

  RIDGE_BOTH int query_blocks_padded() const {
    return 2 * ceil_div(visibility.sequence, 2 * kQueries);
  }
  RIDGE_BOTH bool triangular() const { return visibility.causal && visibility.window == 0; }
  // The key blocks of query block m; none past the end of the sequence.
  RIDGE_BOTH BlockRange keys_of(int m) const {
    if (m * kQueries >= visibility.sequence) return BlockRange{};
    return key_blocks(visibility, m * kQueries, m * kQueries + kQueries - 1, kKeys);
  }
  // Images of one query block if not triangular: an upper bound for all query blocks.
  RIDGE_BOTH int row_images() const {
    const int all = ceil_div(visibility.sequence, kKeys);
    if (visibility.window == 0) return all;
    const int band = (visibility.window + kQueries + kKeys - 2) / kKeys + 1;
    return band < all ? band : all;
  }
  RIDGE_BOTH int images() const {  // images of one head
    const int half = query_blocks_padded() / 2;
    return triangular() ? half * (half + 1) : query_blocks_padded() * row_images();
  }
  // Index of image (m, n) within its head; n must lie in keys_of(m).
  RIDGE_BOTH int index(int m, int n) const {
    if (triangular()) {
      const int half = m / 2;
      return half * (half + 1) + (m % 2) * (half + 1) + n;
    }
    return m * row_images() + n - keys_of(m).begin;
  }
};

using SpillLayout = SpillLayoutOf<Visibility>;

// The order of a backward launch that spills: a head's key tiles, and `lag` sections of heads later
// its query tiles, which use the images that the key tiles stored. Tiles are taken in this order,
// and a tile waits only for earlier ones: a query tile for its head's key tiles, a key tile for the
// query tiles of the head whose images it overwrites. So every wait ends, however few blocks run.
struct SpillOrder {
  int heads = 1;        // key heads
  int key_tiles = 1;    // per head
  int query_tiles = 1;  // per head, over its group
  int section = 1;      // heads whose tiles are mixed, longest first
  int lag = 0;
  int ring = 1;  // heads whose images the workspace holds: at least (lag + 1) section, or all

  struct Tile {
    bool is_query;
    int head;
    int rank;  // among its head's tiles of this kind
  };

  RIDGE_BOTH int tiles() const { return heads * (key_tiles + query_tiles); }
  RIDGE_BOTH Tile locate(int index) const {
    const int sections = ceil_div(heads, section);
    const int leading = lag < sections ? lag * section : heads;
    if (index < leading * key_tiles) return within(false, 0, index);
    index -= leading * key_tiles;
    // Then alternate between the key tiles of one section and the query tiles of the section `lag`
    // before; all sections but the last are full.
    const int full = sections - 1 > lag ? sections - 1 - lag : 0;
    const int pair = section * (key_tiles + query_tiles);
    if (index < full * pair) {
      const int round = index / pair;
      index -= round * pair;
      if (index < section * key_tiles) return within(false, (lag + round) * section, index);
      return within(true, round * section, index - section * key_tiles);
    }
    index -= full * pair;
    if (sections > lag) {
      const int last = heads - (sections - 1) * section;
      if (index < last * key_tiles) return within(false, heads - last, index);
      index -= last * key_tiles;
    }
    return within(true, full * section, index);
  }

 private:
  // The index-th tile of one kind from head `first` on; the tiles of a section are interleaved.
  RIDGE_BOTH Tile within(bool is_query, int first, int index) const {
    const int tiles = is_query ? query_tiles : key_tiles;
    const int round = index / (section * tiles);
    index -= round * section * tiles;
    first += round * section;
    const int count = heads - first < section ? heads - first : section;
    const int rank = index / count;
    return Tile{is_query, first + index - rank * count, rank};
  }
};

}  // namespace ridge::backends::cuda
