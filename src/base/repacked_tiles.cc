// SPDX-License-Identifier: Apache-2.0
// Packs blocks into tiles and dequantizes rows of tiles. Plain loops; the GEMM kernels have their
// own code.
#include "base/repacked_tiles.h"

#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/bf16.h"

namespace ridge {
inline namespace base {
namespace {

template <typename Tile>
constexpr int64_t kBlockColumns = block_elements<typename Tile::Block>();
template <typename Tile>
constexpr int64_t kBlocks = Tile::kColumns / kBlockColumns<Tile>;

// A word, four bytes, of each of four rows. Tiles are packed in such columns of words.
typedef uint32_t Words __attribute__((vector_size(16)));
constexpr int kWordRows = 4;

// The same block of each row of a row block.
using RowBlocks = std::array<const std::byte*, kRepackedRows>;

// Words k to k + 3 behind `offset` of rows r to r + 3.
std::array<Words, 4> load_words(const RowBlocks& rows, size_t r, size_t offset, size_t k) {
  Words row[kWordRows];
  for (size_t i = 0; i < kWordRows; ++i) std::memcpy(&row[i], rows[r + i] + offset + 4 * k, 16);
  const Words low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5),
              high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7),
              low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5),
              high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
  return {__builtin_shufflevector(low01, low23, 0, 1, 4, 5),
          __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
          __builtin_shufflevector(high01, high23, 0, 1, 4, 5),
          __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
}

void store_words(const Words& words, uint8_t (*rows)[4]) { std::memcpy(rows, &words, 16); }

Words splat(uint32_t word) { return Words{word, word, word, word}; }

// Gathers bits k, k + 4, .. k + 28 of a word into one byte.
uint32_t every_fourth_bit(uint32_t word, int k) {
  uint32_t bits = (word >> k) & 0x11111111;
  bits = (bits | bits >> 3) & 0x03030303;
  bits = (bits | bits >> 6) & 0x000f000f;
  return (bits | bits >> 12) & 0xff;
}

// to[i] gets byte i of the 16 bytes behind `offset` of each row.
using ByteColumns = std::array<std::array<uint8_t, kRepackedRows>, 16>;
ByteColumns load_columns(const RowBlocks& rows, size_t offset) {
  typedef uint8_t Bytes __attribute__((vector_size(16)));
  std::array<Bytes, 16> from, to;
  for (size_t r = 0; r < 16; ++r) std::memcpy(&from[r], rows[r] + offset, 16);
  // Each round interleaves the rows of both halves; four of them transpose.
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < 8; ++i) {
      to[2 * i] = __builtin_shufflevector(from[i], from[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                          5, 21, 6, 22, 7, 23);
      to[2 * i + 1] = __builtin_shufflevector(from[i], from[i + 8], 8, 24, 9, 25, 10, 26, 11, 27,
                                              12, 28, 13, 29, 14, 30, 15, 31);
    }
    from = to;
  }
  ByteColumns columns;
  std::memcpy(&columns, &to, sizeof(columns));
  return columns;
}

// Packs block b of a tile from the rows' blocks. Blocks in a file may be at odd addresses.
template <typename Tile>
void pack_blocks(const RowBlocks& rows, size_t b, Tile& tile) {
  using Block = typename Tile::Block;
  constexpr size_t kGroups = sizeof(Block::quants) / 4;
  const Words flipped = splat(std::is_same_v<Block, BlockQ8_0> ? 0x80808080 : 0);
  for (size_t r = 0; r < kRepackedRows; ++r) {
    std::memcpy(&tile.scales[b][r], rows[r], 2);
    if constexpr (requires { tile.mins; })
      std::memcpy(&tile.mins[b][r], rows[r] + offsetof(Block, min), 2);
    if constexpr (requires { tile.high_bits; }) {
      uint32_t word;
      std::memcpy(&word, rows[r] + offsetof(Block, high_bits), 4);
      for (int k = 0; k < 4; ++k)
        tile.high_bits[b][r][k] = static_cast<uint8_t>(every_fourth_bit(word, k));
    }
  }
  for (size_t r = 0; r < kRepackedRows; r += kWordRows)
    for (size_t g = 0; g < kGroups; g += 4) {
      const auto words = load_words(rows, r, offsetof(Block, quants), g);
      for (size_t k = 0; k < 4; ++k) store_words(words[k] ^ flipped, &tile.quants[b][g + k][r]);
    }
}

// Q4_G32 and Q4_G128, of which a tile has one block of each row.
template <HasZeros Tile>
void pack_blocks(const RowBlocks& rows, size_t, Tile& tile) {
  using Block = typename Tile::Block;
  for (size_t r = 0; r < kRepackedRows; ++r) {
    Block block;
    std::memcpy(&block, rows[r], sizeof(block));
    for (size_t g = 0; g < std::size(block.scales); ++g) {
      tile.scales[g][r] = block.scales[g];
      tile.zeros[g][r] = block.zeros[g];
      if constexpr (requires { tile.unused; }) tile.unused[g][r] = block.unused[g];
    }
  }
  for (size_t r = 0; r < kRepackedRows; r += kWordRows)
    for (size_t part = 0; part < Tile::kColumns / Tile::kScaleColumns; ++part) {
      const auto words = load_words(rows, r, offsetof(Block, quants) + 16 * part, 0);
      for (size_t k = 0; k < 4; ++k) store_words(words[k], &tile.quants[part][k][r]);
    }
}

void pack_blocks(const RowBlocks& rows, size_t, TileQ4_K& tile) {
  static_assert(offsetof(BlockQ4_K, scale) == 0 && offsetof(BlockQ4_K, min) == 2 &&
                offsetof(BlockQ4_K, scales) == 4);
  const ByteColumns columns = load_columns(rows, 0);
  for (size_t r = 0; r < kRepackedRows; ++r) {
    tile.scales[r] = static_cast<uint16_t>(columns[0][r] | columns[1][r] << 8);
    tile.mins[r] = static_cast<uint16_t>(columns[2][r] | columns[3][r] << 8);
  }
  std::memcpy(tile.sub_scales, &columns[4], sizeof(tile.sub_scales));
  for (size_t r = 0; r < kRepackedRows; r += kWordRows)
    for (size_t g = 0; g < 32; g += 4) {
      const auto words = load_words(rows, r, offsetof(BlockQ4_K, quants), g);
      for (size_t k = 0; k < 4; ++k) store_words(words[k], &tile.quants[g / 8][g % 8 + k][r]);
    }
}

// Packs sub-block s of rows r to r + 3, which is in group kGroup of four in its half of the block:
// it has nibble kGroup / 2 of its words of low bits, and two bits of those of high bits.
template <int kGroup>
void pack_quants(const std::array<Words, 4>& low,
                 const std::array<Words, 4>& high,
                 size_t r,
                 size_t s,
                 TileQ6_K& tile) {
  const auto nibbles = [&](size_t g) { return low[g] >> (kGroup / 2 * 4) & splat(0x0f0f0f0f); };
  const auto pairs = [&](size_t g) { return high[g] >> (2 * kGroup) & splat(0x03030303); };
  store_words(nibbles(0) | nibbles(1) << 4, &tile.low_bits[s][0][r]);
  store_words(nibbles(2) | nibbles(3) << 4, &tile.low_bits[s][1][r]);
  store_words(pairs(0) | pairs(1) << 2 | pairs(2) << 4 | pairs(3) << 6, &tile.high_bits[s][r]);
}

void pack_blocks(const RowBlocks& rows, size_t, TileQ6_K& tile) {
  for (size_t r = 0; r < kRepackedRows; ++r)
    std::memcpy(&tile.scales[r], rows[r] + offsetof(BlockQ6_K, scale), 2);
  const ByteColumns columns = load_columns(rows, offsetof(BlockQ6_K, scales));
  std::memcpy(tile.sub_scales, &columns, sizeof(tile.sub_scales));
  for (size_t r = 0; r < kRepackedRows; r += kWordRows)
    for (size_t half = 0; half < 2; ++half)
      for (size_t part = 0; part < 2; ++part) {
        const auto high = load_words(rows, r, offsetof(BlockQ6_K, high_bits) + 32 * half, 4 * part);
        const auto low0 = load_words(rows, r, 64 * half, 4 * part),
                   low1 = load_words(rows, r, 64 * half + 32, 4 * part);
        const size_t s = 8 * half + part;
        pack_quants<0>(low0, high, r, s, tile);
        pack_quants<1>(low1, high, r, s + 2, tile);
        pack_quants<2>(low0, high, r, s + 4, tile);
        pack_quants<3>(low1, high, r, s + 6, tile);
      }
}

// Goes tile by tile: a tile stays in L1 while its blocks are read from all rows.
template <typename Tile>
void repack_row_block(const std::byte* rows, int64_t tiles, Tile* to) {
  using Block = typename Tile::Block;
  const int64_t row_bytes = tiles * kBlocks<Tile> * static_cast<int64_t>(sizeof(Block));
  RowBlocks blocks;
  for (int64_t r = 0; r < kRepackedRows; ++r) blocks[static_cast<size_t>(r)] = rows + r * row_bytes;
  for (int64_t p = 0; p < tiles; ++p)
    for (size_t b = 0; b < kBlocks<Tile>; ++b) {
      pack_blocks(blocks, b, to[p]);
      for (const std::byte*& block : blocks) block += sizeof(Block);
    }
}

// Dequantizes block b of a row in a tile.
template <typename Tile>
void unpack_block(const Tile& tile, int64_t b, int64_t row, float* out) {
  const float scale = f16_to_float(tile.scales[b][row]);
  float min = 0;
  if constexpr (requires { tile.mins; }) min = f16_to_float(tile.mins[b][row]);
  const auto set = [&](int64_t column, int quant) {
    if constexpr (requires { tile.high_bits; })
      quant |= (tile.high_bits[b][row][column % 4] >> column / 4 & 1) << 4;
    out[column] = scale * static_cast<float>(quant - Tile::kOffset) + min;
  };
  constexpr int64_t kQuants = 4 * std::extent_v<decltype(Tile::quants), 1>;
  for (int64_t i = 0; i < kQuants; ++i) {
    const uint8_t quant = tile.quants[b][i / 4][row][i % 4];
    if constexpr (kQuants == kBlockElements) {
      set(i, quant);
    } else {
      set(i, quant & 15);
      set(16 + i, quant >> 4);
    }
  }
}

template <HasZeros Tile>
void unpack_block(const Tile& tile, int64_t, int64_t row, float* out) {
  for (int64_t i = 0; i < Tile::kColumns; ++i) {
    const int64_t group = i / Tile::Block::kGroup, in_part = i % 32;
    const int quant = tile.quants[i / 32][in_part % 16 / 4][row][i % 4] >> in_part / 16 * 4 & 15;
    out[i] =
        f16_to_float(tile.scales[group][row]) * static_cast<float>(quant - tile.zeros[group][row]);
  }
}

void unpack_block(const TileQ4_K& tile, int64_t, int64_t row, float* out) {
  const float scale = f16_to_float(tile.scales[row]), min = f16_to_float(tile.mins[row]);
  for (int s = 0; s < 8; ++s) {
    const ScaleMin sub = k_scale_min(&tile.sub_scales[0][row], s, kRepackedRows);
    for (int i = 0; i < 32; ++i) {
      const int quant = tile.quants[s / 2][i / 4][row][i % 4] >> s % 2 * 4 & 15;
      *out++ = scale * static_cast<float>(sub.scale) * static_cast<float>(quant) -
               min * static_cast<float>(sub.min);
    }
  }
}

void unpack_block(const TileQ6_K& tile, int64_t, int64_t row, float* out) {
  const float scale = f16_to_float(tile.scales[row]);
  for (int s = 0; s < 16; ++s)
    for (int i = 0; i < 16; ++i) {
      const int low = tile.low_bits[s][i / 8][row][i % 4] >> i / 4 % 2 * 4 & 15;
      const int high = tile.high_bits[s][row][i % 4] >> i / 4 * 2 & 3;
      *out++ = scale * static_cast<float>(tile.sub_scales[s][row]) *
               static_cast<float>((low | high << 4) - TileQ6_K::kOffset);
    }
}

}  // namespace

DType repacked_dtype(DType dtype, const Shape& shape) {
  constexpr std::pair<DType, DType> kRepackedTypes[] = {
      {DType::kQ4_0, DType::kQ4_0x16},     {DType::kQ4_1, DType::kQ4_1x16},
      {DType::kQ5_0, DType::kQ5_0x16},     {DType::kQ8_0, DType::kQ8_0x16},
      {DType::kQ4_K, DType::kQ4_Kx16},     {DType::kQ6_K, DType::kQ6_Kx16},
      {DType::kQ4_G32, DType::kQ4_G32x16}, {DType::kQ4_G128, DType::kQ4_G128x16}};
  if (shape.rank() != 2 || shape.elements() == 0 || shape[0] % kRepackedRows != 0) return dtype;
  for (const auto& [blocks, tiles] : kRepackedTypes)
    if (dtype == blocks && shape[1] % (info(tiles).elements_per_block / kRepackedRows) == 0)
      return tiles;
  return dtype;
}

void repack_rows(DType to,
                 int64_t in,
                 std::span<const std::byte> rows,
                 std::span<std::byte> tiles) {
  with_tile_type(to, [&](auto type) {
    using Tile = typename decltype(type)::type;
    const int64_t across = in / Tile::kColumns;
    const size_t row_block_bytes = static_cast<size_t>(across) * sizeof(Tile);
    RIDGE_CHECK(in % Tile::kColumns == 0 && rows.size() == tiles.size() &&
                    rows.size() % row_block_bytes == 0,
                "{} bytes of rows of {} are no tiles", rows.size(), in);
    for (size_t at = 0; at < rows.size(); at += row_block_bytes)
      repack_row_block(rows.data() + at, across, reinterpret_cast<Tile*>(tiles.data() + at));
  });
}

void dequantize_row(DType dtype, const std::byte* tiles, int64_t row, std::span<float> out) {
  with_tile_type(dtype, [&](auto type) {
    using Tile = typename decltype(type)::type;
    const int64_t across = static_cast<int64_t>(out.size()) / Tile::kColumns;
    const Tile* row_block = reinterpret_cast<const Tile*>(tiles) + row / kRepackedRows * across;
    float* to = out.data();
    for (int64_t p = 0; p < across; ++p)
      for (int64_t b = 0; b < kBlocks<Tile>; ++b, to += kBlockColumns<Tile>)
        unpack_block(row_block[p], b, row % kRepackedRows, to);
  });
}

}  // namespace base
}  // namespace ridge
