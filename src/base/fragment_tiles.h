// SPDX-License-Identifier: Apache-2.0
// Matrices of Q4_K and Q6_K in fragment tiles: 8 rows by 256 columns in the order in which the
// lanes of a GPU's warp hold the left operand of a tensor core's product (m16n8k16), so that a warp
// reads each tile in whole 16-byte vectors. Values and size are those of GGUF's blocks: only the
// order of the bits differs, and the sub-scales of Q6_K are unsigned. Fragment tiles exist only in
// memory, never in a file.
//
// A matrix [out, in] is stored as tiles [out / 8, in / 256]. Lane 4 r + t has 64 quants of row r,
// eight in each of eight words. Nibble i / 2 + 4 (i % 2) of word w is its element i, which is in
// column fragment_column(dtype, w, t, i): two neighbours are in one pair of 16 bits.
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

// Word w of a lane is word w % 4 of vector w / 4.
struct FragmentsQ4_K {
  using Block = BlockQ4_K;
  static constexpr int kScaleColumns = 32;
  uint8_t headers[8][16];  // scale, min and scale bytes of each row's block
  uint32_t low[2][32][4];
};

// The high two bits of the quants of words 2 j and 2 j + 1 are in word j of `high`: element i of
// word w has bits 2 (i / 2 + 4 (w % 2)) + 16 (i % 2) and the next one.
struct FragmentsQ6_K {
  using Block = BlockQ6_K;
  static constexpr int kScaleColumns = 16;
  uint8_t headers[8][16];  // sub-scales plus 128
  uint32_t low[2][32][4];
  uint32_t high[32][4];
  uint16_t scales[8];
};

static_assert(sizeof(FragmentsQ4_K) == 8 * sizeof(BlockQ4_K) &&
              sizeof(FragmentsQ6_K) == 8 * sizeof(BlockQ6_K));

// The column of element i of word w in the lanes t, t + 4, ... A product's step covers 16 columns
// that share a scale.
constexpr int fragment_column(int scale_columns, int w, int t, int i) {
  return scale_columns == 32 ? 32 * w + 8 * t + i : 32 * w + i / 4 * 16 + 4 * t + i % 4;
}

// The type of such a matrix in fragment tiles; `dtype` itself if there is none.
DType fragment_dtype(DType dtype, const Shape& shape);
inline bool is_fragments(DType dtype) { return dtype == DType::kQ4_Kx8 || dtype == DType::kQ6_Kx8; }

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
