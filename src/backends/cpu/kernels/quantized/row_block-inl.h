// SPDX-License-Identifier: Apache-2.0
// The loop along a row block, compiled for the instruction set of the file that includes it.
// Include it after gemv_repacked-inl.h, where that set is the target; it has no includes for that
// reason.
#pragma once

namespace ridge::backends::cpu {
namespace {

// Calls add(tile, scales, s, odd, part) for each scale of a row block's tiles: s is its index in
// its tile, `odd` whether that is odd, and `part` its index in the row. An even scale and the odd
// one after it are unrolled, so that each may have a separate total. Form defines the type of the
// tile and of its scales (TileScales), and how many bytes ahead to prefetch (kFetchedAhead).
template <typename Form, typename Add>
inline void for_each_scale(const RowBlock<typename Form::Tile>& row_block, const Add& add) {
  using Tile = typename Form::Tile;
  int64_t part = 0;
  for (int64_t p = 0; p < row_block.across; ++p) {
    const Tile& tile = row_block.tiles[p];
    const typename Form::TileScales scales(tile);
    for (int s = 0; s < kScaleCount<Tile>; s += 2, part += 2) {
      if (s % 4 == 0) fetch_after<Form::kFetchedAhead>(tile, s, row_block.path);
#pragma GCC unroll 2
      for (int odd = 0; odd < 2; ++odd) add(tile, scales, s + odd, odd, part + odd);
    }
  }
}

}  // namespace
}  // namespace ridge::backends::cpu
