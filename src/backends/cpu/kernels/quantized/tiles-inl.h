// SPDX-License-Identifier: Apache-2.0
// The order in which tiles are multiplied, for any unit with tile registers: AMX (gemm_amx.cc), or
// in tests plain arithmetic that defines what a tile instruction computes. Private to those.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/kernels/partition.h"
#include "backends/cpu/kernels/quantized/gate_and_up.h"
#include "backends/cpu/kernels/quantized/tiles.h"
#include "backends/cpu/kernels/quantized/unpack.h"
#include "base/block_formats.h"

namespace ridge::backends::cpu {

// Two tiles of rows by two of tokens fill the eight registers: four of sums, two of each operand.
inline constexpr int64_t kWeightTilesRows = 2 * kTileRows;
// 32 rows of 640 columns are 40 KiB of bf16 in an L1 of 48 KiB, through which the activations
// stream. A matrix is cut into the fewest parts of whole blocks of about that size.
inline constexpr int64_t kWeightTilesDepth = 768;
inline int64_t weight_tiles_depth(int64_t in) {
  constexpr int64_t kUsual = 640;
  const int64_t parts = (in + kUsual - 1) / kUsual;
  const int64_t blocks = (in + parts * kSuperBlockElements - 1) / (parts * kSuperBlockElements);
  return parts == 1 ? in : blocks * kSuperBlockElements;
}

// Some columns of 32 rows of W, unpacked: [2, depth / 32, 16 pairs of columns, 16 rows, 2].
struct WeightTiles {
  int64_t depth_tiles = 0;
  alignas(64) uint16_t values[kWeightTilesRows * kWeightTilesDepth];

  uint16_t* tile(int64_t row_tile, int64_t depth_tile) {
    return values + (row_tile * depth_tiles + depth_tile) * kTileElements;
  }
  const uint16_t* tile(int64_t row_tile, int64_t depth_tile) const {
    return values + (row_tile * depth_tiles + depth_tile) * kTileElements;
  }
};

// Unpacks kTileRows rows, zeros past the last, to a tile of rows; depth <= kWeightTilesDepth.
void unpack_tiles(const WeightPart& part, int64_t row_tile, WeightTiles& tiles);

// The same for weights in repacked tiles; needs AVX-512 BF16.
void unpack_repacked_tiles(const WeightPart& part, int64_t row_tile, WeightTiles& tiles);

// kTileRows rows of a weight from `row` on.
struct TileRows {
  const QuantizedMatrix& weight;
  int64_t row;
};

struct TileProduct {
  const WeightTiles* weights = nullptr;
  const ActivationTiles* x = nullptr;
  int64_t first_depth_tile = 0;  // x has it at the weights' first column
  int64_t rows = 0;              // 1..kWeightTilesRows
  StridedRows<float> y;          // at the weights' first row
  int64_t token_of_y = 0;        // y's first row belongs to it
  bool accumulate = false;
  // This is written in the end, by token: `columns` of y, or of what a GLU makes of it.
  StridedRows<float> result;
  int64_t columns = 0;

  float* y_of(int64_t token) const { return y[token - token_of_y]; }
};

// Registers: sums 0..3 ([token tile][row tile]), activations 4 and 5, weights 6 and 7. Loads are
// grouped and so are multiplications; tile_gemm-inl.h gives the reason.
template <typename Unit, int kTokenTiles, int kRowTiles>
inline void multiply_tiles(const TileProduct& call, int64_t token_tile) {
  constexpr int64_t kStep = 2 * kTileDepth;
  for (int64_t k = 0; k < call.weights->depth_tiles; ++k) {
    const int64_t depth_tile = call.first_depth_tile + k;
    Unit::template load<6>(call.weights->tile(0, k), kStep);
    Unit::template load_passing<4>(call.x->tile(token_tile, depth_tile), kStep);
    if constexpr (kRowTiles == 2) Unit::template load<7>(call.weights->tile(1, k), kStep);
    if constexpr (kTokenTiles == 2)
      Unit::template load_passing<5>(call.x->tile(token_tile + 1, depth_tile), kStep);
    Unit::template multiply<0, 4, 6>();
    if constexpr (kRowTiles == 2) Unit::template multiply<1, 4, 7>();
    if constexpr (kTokenTiles == 2) Unit::template multiply<2, 5, 6>();
    if constexpr (kTokenTiles * kRowTiles == 4) Unit::template multiply<3, 5, 7>();
  }
}

// One tile of y. If the tile is cut off at an edge, a whole copy goes through the registers, so
// that the sum of an output has one order for every N.
struct OutputTile {
  float* y;
  int64_t stride;  // elements
  int64_t tokens, rows;

  bool is_whole() const { return tokens == kTileRows && rows == kTileRows; }
};

inline OutputTile output_tile(const TileProduct& call, int64_t token_tile, int64_t row_tile) {
  const int64_t token = token_tile * kTileRows, row = row_tile * kTileRows;
  return {call.y_of(token) + row, call.y.stride, std::min(call.x->tokens - token, kTileRows),
          std::min(call.rows - row, kTileRows)};
}

// Outputs are in L3 or farther, one line per token. They are prefetched while the GEMM runs, so
// that they are in cache when it stores them.
inline void fetch_outputs(const TileProduct& call, int64_t token_tile, int64_t token_tiles) {
  const int64_t end = std::min((token_tile + token_tiles) * kTileRows, call.x->tokens);
  for (int64_t n = token_tile * kTileRows; n < end; ++n) {
    __builtin_prefetch(call.result[n], 1);
    __builtin_prefetch(call.result[n] + call.columns - 1, 1);
  }
}

template <typename Unit, int kTile>
inline void begin_sums(const OutputTile& tile, bool accumulate) {
  if (!accumulate) return Unit::template zero<kTile>();
  if (tile.is_whole()) return Unit::template load<kTile>(tile.y, 4 * tile.stride);
  alignas(64) float whole[kTileRows * kTileRows] = {};
  for (int64_t n = 0; n < tile.tokens; ++n)
    std::copy_n(tile.y + n * tile.stride, tile.rows, whole + n * kTileRows);
  Unit::template load<kTile>(whole, 4 * kTileRows);
}

template <typename Unit, int kTile>
inline void store_sums(const OutputTile& tile) {
  if (tile.is_whole()) return Unit::template store<kTile>(tile.y, 4 * tile.stride);
  alignas(64) float whole[kTileRows * kTileRows];
  Unit::template store<kTile>(whole, 4 * kTileRows);
  for (int64_t n = 0; n < tile.tokens; ++n)
    std::copy_n(whole + n * kTileRows, tile.rows, tile.y + n * tile.stride);
}

template <typename Unit, int kTokenTiles, int kRowTiles>
inline void multiply_block(const TileProduct& call, int64_t token_tile) {
  const auto at = [&](int64_t n, int64_t r) { return output_tile(call, token_tile + n, r); };
  fetch_outputs(call, token_tile, kTokenTiles);
  begin_sums<Unit, 0>(at(0, 0), call.accumulate);
  if constexpr (kRowTiles == 2) begin_sums<Unit, 1>(at(0, 1), call.accumulate);
  if constexpr (kTokenTiles == 2) begin_sums<Unit, 2>(at(1, 0), call.accumulate);
  if constexpr (kTokenTiles * kRowTiles == 4) begin_sums<Unit, 3>(at(1, 1), call.accumulate);
  multiply_tiles<Unit, kTokenTiles, kRowTiles>(call, token_tile);
  store_sums<Unit, 0>(at(0, 0));
  if constexpr (kRowTiles == 2) store_sums<Unit, 1>(at(0, 1));
  if constexpr (kTokenTiles == 2) store_sums<Unit, 2>(at(1, 0));
  if constexpr (kTokenTiles * kRowTiles == 4) store_sums<Unit, 3>(at(1, 1));
}

// Multiplies the weights with the tiles of a range of tokens.
template <typename Unit>
void multiply_weight_tiles(const TileProduct& call, Range token_tiles) {
  const bool both = call.rows > kTileRows;
  for (int64_t t = token_tiles.begin; t < token_tiles.end; t += 2) {
    const bool pair = t + 1 < token_tiles.end;
    if (pair && both) {
      multiply_block<Unit, 2, 2>(call, t);
    } else if (pair) {
      multiply_block<Unit, 2, 1>(call, t);
    } else if (both) {
      multiply_block<Unit, 1, 2>(call, t);
    } else {
      multiply_block<Unit, 1, 1>(call, t);
    }
  }
}

// Multiplies one or two tiles of rows over all columns; `call` has x, the rows and y.
template <typename Unit>
void multiply_row_tiles(std::span<const TileRows> rows, TileProduct call, Range tokens) {
  const Range token_tiles{tokens.begin / kTileRows, (tokens.end + kTileRows - 1) / kTileRows};
  const bool accumulate = call.accumulate;
  WeightTiles weights;
  call.weights = &weights;
  const int64_t in = call.x->in, depth = weight_tiles_depth(in);
  for (int64_t column = 0; column < in; column += depth) {
    const int64_t part = std::min(depth, in - column);
    weights.depth_tiles = part / kTileDepth;
    for (size_t t = 0; t < rows.size(); ++t)
      unpack_tiles({rows[t].weight, rows[t].row, column, part}, static_cast<int64_t>(t), weights);
    call.first_depth_tile = column / kTileDepth;
    call.accumulate = accumulate || column > 0;
    multiply_weight_tiles<Unit>(call, token_tiles);
  }
}

// 32 rows of W from `row` on; `tokens` begins at a whole tile.
template <typename Unit>
void multiply_rows(const QuantizedProduct& product,
                   int64_t row,
                   const ActivationTiles& x,
                   Range tokens) {
  const QuantizedMatrix& weight = product.weight;
  const TileRows rows[] = {{weight, row}, {weight, row + kTileRows}};
  TileProduct call;
  call.x = &x;
  call.rows = std::min(kWeightTilesRows, weight.out - row);
  call.y = call.result = {product.y.data + row, product.y.stride};
  call.columns = call.rows;
  call.accumulate = product.accumulate;
  multiply_row_tiles<Unit>({rows, call.rows > kTileRows ? 2u : 1u}, call, tokens);
}

// A GLU takes up to so many tokens at once: 64 KiB of gate and up in L2.
inline constexpr int64_t kGluTokens = 512;
static_assert(kGluTokens % kTileRows == 0);

// 16 rows of gate and of up from `row` on, of which only the GLU leaves the core; as multiply_rows.
template <typename Unit>
void multiply_glu_rows(const QuantizedProduct& product,
                       int64_t row,
                       const ActivationTiles& x,
                       Range tokens) {
  GateAndUp<kGluTokens> products;
  static_assert(products.kRows == kTileRows);
  const TileRows rows[] = {{product.weight, row}, {product.up.weight, row}};
  TileProduct call;
  call.x = &x;
  call.rows = kWeightTilesRows;
  call.y = products.y();
  call.token_of_y = tokens.begin;
  call.result = {product.y.data + row, product.y.stride};
  call.columns = std::min(kTileRows, product.weight.out - row);
  multiply_row_tiles<Unit>(rows, call, tokens);
  products.store_glu(product, row, tokens);
}

}  // namespace ridge::backends::cpu
