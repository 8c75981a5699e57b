// SPDX-License-Identifier: Apache-2.0
// Repacked matrices, of the types in with_tile_type(). A repacked tile interleaves the blocks of 16
// rows, so that a vector holds the same columns of 8 or 16 rows and a matrix product reads one
// stream from front to back. Values and size are those of the blocks: only the order of the bits
// differs, and Q8_0's quants are unsigned. Tiles exist only in memory, never in a file.
//
// A matrix [out, in] is stored as tiles [out / 16, in / kColumns]. out is a multiple of 16 and in
// a multiple of the tile's kColumns: two blocks of 32, or one of 64, 128 or 256. kScaleColumns
// columns share a scale.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/block_formats.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/shape.h"

namespace ridge {
inline namespace base {

inline constexpr int64_t kRepackedRows = 16;

// The low nibbles are a block's columns 0..15 and the high nibbles its columns 16..31, in groups of
// four columns. A quant is the number that the scale multiplies, plus kOffset.
struct TileQ4_0 {
  using Block = BlockQ4_0;
  static constexpr int64_t kColumns = 64, kScaleColumns = 32;
  static constexpr int kOffset = 8;
  uint16_t scales[2][16];
  uint8_t quants[2][4][16][4];  // [block, group, row, column]
};

struct TileQ4_1 {
  using Block = BlockQ4_1;
  static constexpr int64_t kColumns = 64, kScaleColumns = 32;
  static constexpr int kOffset = 0;
  uint16_t scales[2][16];
  uint16_t mins[2][16];
  uint8_t quants[2][4][16][4];  // as in TileQ4_0
};

// Bit g of byte c of `high_bits` is bit 4 of the quant in byte c of group g; groups 4..7 are the
// high nibbles.
struct TileQ5_0 {
  using Block = BlockQ5_0;
  static constexpr int64_t kColumns = 64, kScaleColumns = 32;
  static constexpr int kOffset = 16;
  uint16_t scales[2][16];
  uint8_t high_bits[2][16][4];  // [block, row, column]
  uint8_t quants[2][4][16][4];  // as in TileQ4_0
};

struct TileQ8_0 {
  using Block = BlockQ8_0;
  static constexpr int64_t kColumns = 64, kScaleColumns = 32;
  static constexpr int kOffset = 128;
  uint16_t scales[2][16];
  uint8_t quants[2][8][16][4];
};

// sub_scales[i] holds byte i of the block's scale bytes for all 16 rows.
struct TileQ4_K {
  using Block = BlockQ4_K;
  static constexpr int64_t kColumns = 256, kScaleColumns = 32;
  static constexpr int kOffset = 0;
  uint16_t scales[16];
  uint16_t mins[16];
  uint8_t sub_scales[12][16];
  uint8_t quants[4][8][16][4];  // [pair of sub-blocks, group, row, column], nibbles as in BlockQ4_K
};

// A sub-block has four groups of four columns. Groups 2 i and 2 i + 1 are the low and the high
// nibbles of low_bits[..][i]; the high bits of group g are bits 2 g and 2 g + 1 of each byte of
// `high_bits`.
struct TileQ6_K {
  using Block = BlockQ6_K;
  static constexpr int64_t kColumns = 256, kScaleColumns = 16;
  static constexpr int kOffset = 32;
  uint16_t scales[16];
  int8_t sub_scales[16][16];       // [sub-block, row]
  uint8_t low_bits[16][2][16][4];  // [sub-block, pair of groups, row, column]
  uint8_t high_bits[16][16][4];    // [sub-block, row, column]
};

struct TileQ4_G32 {
  using Block = BlockQ4_G32;
  static constexpr int64_t kColumns = 64, kScaleColumns = 32;
  static constexpr int kOffset = 0;
  uint16_t scales[2][16];
  uint8_t zeros[2][16];
  uint8_t quants[2][4][16][4];  // as in TileQ4_0
};

// The four parts of 32 columns share a scale and a zero point.
struct TileQ4_G128 {
  using Block = BlockQ4_G128;
  static constexpr int64_t kColumns = 128, kScaleColumns = 32;
  static constexpr int kOffset = 0;
  uint16_t scales[1][16];
  uint8_t zeros[1][16];
  uint8_t unused[1][16];
  uint8_t quants[4][4][16][4];  // as in TileQ4_0
};

static_assert(sizeof(TileQ4_G32) == 16 * sizeof(BlockQ4_G32) &&
              sizeof(TileQ4_G128) == 16 * sizeof(BlockQ4_G128));
static_assert(sizeof(TileQ4_0) == 576 && sizeof(TileQ4_1) == 640 && sizeof(TileQ5_0) == 704 &&
              sizeof(TileQ8_0) == 1088);
static_assert(sizeof(TileQ4_K) == 16 * sizeof(BlockQ4_K) &&
              sizeof(TileQ6_K) == 16 * sizeof(BlockQ6_K));

// Scales of one row in a tile.
template <typename Tile>
inline constexpr int kScaleCount = Tile::kColumns / Tile::kScaleColumns;

// Whether products add a number per scale to the scaled quants: a min, or -scale * zero point.
template <typename Tile>
inline constexpr bool kTileAdds = HasZeros<Tile> || requires(Tile tile) {
  tile.mins;
};

// Calls body(std::type_identity<Tile>()) with the tile struct of a tile type.
template <typename Body>
decltype(auto) with_tile_type(DType tiles, const Body& body) {
  switch (tiles) {
    case DType::kQ4_0x16:
      return body(std::type_identity<TileQ4_0>());
    case DType::kQ4_1x16:
      return body(std::type_identity<TileQ4_1>());
    case DType::kQ5_0x16:
      return body(std::type_identity<TileQ5_0>());
    case DType::kQ4_Kx16:
      return body(std::type_identity<TileQ4_K>());
    case DType::kQ6_Kx16:
      return body(std::type_identity<TileQ6_K>());
    case DType::kQ4_G32x16:
      return body(std::type_identity<TileQ4_G32>());
    case DType::kQ4_G128x16:
      return body(std::type_identity<TileQ4_G128>());
    default:
      RIDGE_CHECK(tiles == DType::kQ8_0x16, "{} is no type of tiles", name(tiles));
      return body(std::type_identity<TileQ8_0>());
  }
}

// The tile type for such a matrix; `dtype` itself if there is none.
DType repacked_dtype(DType dtype, const Shape& shape);
inline bool is_repacked(DType dtype) {
  return dtype == DType::kQ4_0x16 || dtype == DType::kQ4_1x16 || dtype == DType::kQ5_0x16 ||
         dtype == DType::kQ8_0x16 || dtype == DType::kQ4_Kx16 || dtype == DType::kQ6_Kx16 ||
         dtype == DType::kQ4_G32x16 || dtype == DType::kQ4_G128x16;
}

// Packs rows of blocks, each `in` columns wide, into tiles of type `to`. The number of rows must
// be a multiple of 16. The size in bytes stays the same.
void repack_rows(DType to, int64_t in, std::span<const std::byte> rows, std::span<std::byte> tiles);

// Dequantizes row `row` of a matrix in tiles to out.size() columns, with the values of
// dequantize().
void dequantize_row(DType dtype, const std::byte* tiles, int64_t row, std::span<float> out);

}  // namespace base
}  // namespace ridge
