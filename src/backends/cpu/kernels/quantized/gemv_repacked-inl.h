// SPDX-License-Identifier: Apache-2.0
// Shared by the GEMV paths with repacked tiles of 16 rows: the loop over row blocks, and
// the vectors that are multiplied at once. The inner loops are in gemv_repacked_avx2.cc and
// gemv_repacked_avx512.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "base/error.h"
#include "base/repacked_tiles.h"

namespace ridge::backends::cpu {
namespace {

static_assert(kRowBlockRows == kRepackedRows);

// Prefetches into L2 the bytes of a stream of tiles that are read kDistance bytes after the part
// of `tile` that belongs to the four scales from `s` on.
template <int64_t kDistance, typename Tile>
inline void fetch_after(const Tile& tile, int s, const ReadPath& path) {
  constexpr size_t kParts = (kScaleCount<Tile> + 3) / 4, kBytes = sizeof(Tile) / kParts;
  const std::byte* from = reinterpret_cast<const std::byte*>(&tile) + s / 4 * kBytes;
  const std::byte* ahead = path.ahead_of(from, kDistance);
#pragma GCC unroll 18
  for (size_t line = 0; line < kBytes; line += 64) __builtin_prefetch(ahead + line, 0, 2);
}

// Up to eight of x's vectors of 8-bit quants, from `first` on, and the outputs of their tokens.
struct Vectors {
  static constexpr int64_t kMost = kGemvVectorsAvx512;
  Vectors() = default;
  Vectors(const QuantizedActivations& x, int64_t first, StridedRows<float> to)
      : count(std::min<int64_t>(x.vectors() - first, kMost)) {
    for (int64_t v = 0; v < count; ++v) {
      const int64_t n = x.token_of(first + v);
      const QuantizedActivations part = x.part(x.part_of(first + v));
      quants[v] = part.int8_quants(n);
      scales[v] = part.scales(n);
      sums[v] = part.sums(n);
      half_sums[v] = part.half_sums(n);
      quant_sums[v] = part.quant_sums(n);
      half_quant_sums[v] = part.half_quant_sums(n);
    }
    for (int64_t t = 0; t < count / x.parts(); ++t) {
      const int64_t n = x.token_of(first) + t;
      y[t] = to[n];
      row_scales[t] = x.row_scale(n);
    }
  }

  // The sums over groups of `columns` columns.
  const float* sums_of(int64_t columns, int v) const {
    return columns == kActivationBlock ? sums[v] : half_sums[v];
  }
  const int32_t* quant_sums_of(int64_t columns, int v) const {
    return columns == kActivationBlock ? quant_sums[v] : half_quant_sums[v];
  }

  int64_t count = 0;
  const int8_t* quants[kMost] = {};
  const float* scales[kMost] = {};
  const float* sums[kMost] = {};          // scale times the sum of a block's quants
  const float* half_sums[kMost] = {};     // the same of half a block
  const int32_t* quant_sums[kMost] = {};  // in one part
  const int32_t* half_quant_sums[kMost] = {};
  float row_scales[kMost] = {};
  float* y[kMost] = {};
};

// 16 rows of W from `row` on, all columns.
template <typename Tile>
struct RowBlock {
  const Tile* tiles;
  int64_t across;
  int64_t row;
  bool accumulate;
  bool is_streamed;
  ReadPath path;
};

// Reads row block after row block, in the order of memory; a row block is in L1 when further tokens
// are multiplied with it. More than 32 tokens, or vectors of quants, read the row blocks again.
// Form::Inputs holds up to Form::kMost of them, and Form::product_of(inputs, x) is the function
// that multiplies a row block with them.
template <typename Form>
void multiply_row_blocks(const RowsProduct& call) {
  using Tile = typename Form::Tile;
  using Inputs = typename Form::Inputs;
  constexpr int64_t kAtOnce = 32 / Form::kMost;
  const QuantizedActivations& x = call.x;
  const Range rows = call.stream.rows;
  RIDGE_CHECK(rows.begin % kRowBlockRows == 0 && rows.end % kRowBlockRows == 0,
              "rows {} to {} are no tiles", rows.begin, rows.end);
  RowBlock<Tile> row_block{
      nullptr, call.weight.in / Tile::kColumns, 0, call.accumulate, call.is_streamed, {}};
  const Tile* tiles = reinterpret_cast<const Tile*>(call.weight.data);
  const auto row_block_at = [&](int64_t row) {
    return tiles + row / kRowBlockRows * row_block.across;
  };
  row_block.path = {reinterpret_cast<const std::byte*>(row_block_at(rows.end)), call.stream.then};
  for (int64_t first = 0; first < x.vectors(); first += Form::kMost * kAtOnce) {
    std::array<Inputs, kAtOnce> inputs;
    std::array<decltype(Form::product_of(inputs[0], x)), kAtOnce> products;
    size_t groups = 0;
    for (int64_t v = first; groups < kAtOnce && v < x.vectors(); v += Form::kMost, ++groups) {
      inputs[groups] = Inputs(x, v, call.y);
      products[groups] = Form::product_of(inputs[groups], x);
    }
    for (row_block.row = rows.begin; row_block.row < rows.end; row_block.row += kRowBlockRows) {
      row_block.tiles = row_block_at(row_block.row);
      for (size_t g = 0; g < groups; ++g) products[g](row_block, inputs[g]);
    }
  }
}

// Calls multiply_row_blocks with Form<Tile> for the tile type of the weight's format.
template <template <typename> typename Form>
void multiply_repacked(const RowsProduct& call) {
  with_tile_type(call.weight.dtype, [&](auto type) {
    multiply_row_blocks<Form<typename decltype(type)::type>>(call);
  });
}

}  // namespace
}  // namespace ridge::backends::cpu
