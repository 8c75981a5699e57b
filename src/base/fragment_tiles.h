// SPDX-License-Identifier: Apache-2.0
// Quantized matrices in fragment tiles: 8 rows by 256 columns in the order in which the lanes of a
// GPU's warp hold the left operand of a tensor core's product (m16n8k16), so that a warp reads each
// tile in whole 16-byte vectors. Values and size are those of the blocks: only the order of the
// bits differs, and signed sub-scales and quants are stored with an offset. Fragment tiles exist
// only in memory, never in a file.
//
// A matrix [out, in] is stored as tiles [out / 8, in / 256]. Lane 4 r + t has 64 quants of row r:
// element i of its word w, 0 <= w, i < 8, is in column fragment_column(w, t, i). Two neighbours are
// in one pair of 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/block_formats.h"
#include "base/dtype.h"
#include "base/shape.h"

namespace ridge {
inline namespace base {

inline constexpr int64_t kFragmentRows = 8, kFragmentColumns = 256;

// The low four bits of each element: nibble i / 2 + 4 (i % 2) of word w % 4 of vector w / 4.
using FragmentNibbles = uint32_t[2][32][4];
// Bit 4 of the elements of words 4 j to 4 j + 3 of a lane is in word j: bit 4 (w % 4) + i / 2 +
// 16 (i % 2).
using FragmentFifthBits = uint32_t[32][2];
// Scales and mins of the eight blocks of each row.
using FragmentScales = uint16_t[8][8];

struct FragmentsQ4_0 {
  using Block = BlockQ4_0;
  FragmentScales scales;
  FragmentNibbles low;
};
struct FragmentsQ4_1 {
  using Block = BlockQ4_1;
  FragmentScales scales, mins;
  FragmentNibbles low;
};
struct FragmentsQ5_0 {
  using Block = BlockQ5_0;
  FragmentScales scales;
  FragmentNibbles low;
  FragmentFifthBits high;
};
struct FragmentsQ5_1 {
  using Block = BlockQ5_1;
  FragmentScales scales, mins;
  FragmentNibbles low;
  FragmentFifthBits high;
};
// Element i of word w is byte i % 4 of word 2 w + i / 4, which is in vector w / 2. Quants plus 128.
struct FragmentsQ8_0 {
  using Block = BlockQ8_0;
  FragmentScales scales;
  uint32_t low[4][32][4];
};
struct FragmentsQ4_K {
  using Block = BlockQ4_K;
  uint8_t headers[8][16];  // scale, min and scale bytes of each row's block
  FragmentNibbles low;
};
struct FragmentsQ5_K {
  using Block = BlockQ5_K;
  uint8_t headers[8][16];
  FragmentNibbles low;
  FragmentFifthBits high;
};
// The high two bits of the elements of words 2 j and 2 j + 1 are in word j of `high`: bits
// 2 (i / 2 + 4 (w % 2)) + 16 (i % 2) and the next one.
struct FragmentsQ6_K {
  using Block = BlockQ6_K;
  uint8_t headers[8][16];  // sub-scales plus 128
  FragmentNibbles low;
  uint32_t high[32][4];
  uint16_t scales[8];
};

struct FragmentsQ4_G32 {
  using Block = BlockQ4_G32;
  FragmentScales scales;
  uint8_t zeros[8][8];
  FragmentNibbles low;
};
struct FragmentsQ4_G128 {
  using Block = BlockQ4_G128;
  uint16_t scales[8][2];
  uint8_t zeros[8][2];
  uint8_t unused[8][2];
  FragmentNibbles low;
};

// Blocks of a row of a tile.
template <typename Tile>
inline constexpr int kFragmentBlocks = static_cast<int>(sizeof(Tile) /
                                                        sizeof(typename Tile::Block)) /
                                       static_cast<int>(kFragmentRows);

constexpr int fragment_column(int w, int t, int i) { return 32 * w + 8 * t + i; }

// The type of such a matrix in fragment tiles; `dtype` itself if there is none.
DType fragment_dtype(DType dtype, const Shape& shape);
inline bool is_fragments(DType dtype) {
  return dtype >= DType::kQ4_0x8 && dtype <= DType::kQ4_G128x8;
}

// Packs rows of blocks, each `in` columns wide, into tiles of type `to`. The number of rows must be
// a multiple of 8. The size in bytes stays the same.
void pack_fragments(DType to,
                    int64_t in,
                    std::span<const std::byte> rows,
                    std::span<std::byte> tiles);

// The inverse: the rows get the bytes from which the tiles were packed.
void unpack_fragments(DType from,
                      int64_t in,
                      std::span<const std::byte> tiles,
                      std::span<std::byte> rows);

}  // namespace base
}  // namespace ridge
