// SPDX-License-Identifier: Apache-2.0
// Packs blocks into fragment tiles, and back. Plain loops: a model is packed once.
#include "base/fragment_tiles.h"

#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace ridge {
inline namespace base {
namespace {

constexpr int kLanesOfRow = 4, kWords = 8, kElements = 8;

int nibble_shift(int i) { return 4 * (i / 2 + 4 * (i % 2)); }
int pair_shift(int w, int i) { return 2 * (i / 2 + 4 * (w % 2)) + 16 * (i % 2); }

// The four low bits of the quant in a column: a byte of the block and the nibble in it.
struct Nibble {
  int byte, shift;
};
Nibble nibble_of(const BlockQ4_K&, int column) {
  return {column / 64 * 32 + column % 32, column % 64 / 32 * 4};
}
Nibble nibble_of(const BlockQ6_K&, int column) {
  const int group = column % 128 / 32;
  return {column / 128 * 64 + group % 2 * 32 + column % 32, group / 2 * 4};
}

uint8_t* low_bytes(BlockQ4_K& block) { return block.quants; }
uint8_t* low_bytes(BlockQ6_K& block) { return block.low_bits; }

// The byte of a Q6_K block with a column's high bits, and their place in it.
int high_byte(int column) { return column / 128 * 32 + column % 32; }
int high_shift(int column) { return column % 128 / 32 * 2; }

// Calls body(word, element, column) for the elements of one lane of a row.
template <typename Tile, typename Body>
void for_each_element(int t, const Body& body) {
  for (int w = 0; w < kWords; ++w)
    for (int i = 0; i < kElements; ++i) body(w, i, fragment_column(Tile::kScaleColumns, w, t, i));
}

template <typename Tile>
void pack_row(typename Tile::Block block, int row, Tile& tile) {
  constexpr bool kHasHigh = std::is_same_v<Tile, FragmentsQ6_K>;
  if constexpr (kHasHigh) {
    tile.scales[row] = block.scale;
    for (int s = 0; s < 16; ++s) tile.headers[row][s] = static_cast<uint8_t>(block.scales[s] + 128);
  } else {
    std::memcpy(tile.headers[row], &block, sizeof(tile.headers[row]));
  }
  for (int t = 0; t < kLanesOfRow; ++t) {
    const int lane = row * kLanesOfRow + t;
    uint32_t low[kWords] = {}, high[kWords / 2] = {};
    for_each_element<Tile>(t, [&](int w, int i, int column) {
      const Nibble at = nibble_of(block, column);
      low[w] |= static_cast<uint32_t>(low_bytes(block)[at.byte] >> at.shift & 15)
                << nibble_shift(i);
      if constexpr (kHasHigh)
        high[w / 2] |=
            static_cast<uint32_t>(block.high_bits[high_byte(column)] >> high_shift(column) & 3)
            << pair_shift(w, i);
    });
    for (int w = 0; w < kWords; ++w) tile.low[w / 4][lane][w % 4] = low[w];
    if constexpr (kHasHigh) std::memcpy(tile.high[lane], high, sizeof(high));
  }
}

template <typename Tile>
typename Tile::Block unpack_row(const Tile& tile, int row) {
  constexpr bool kHasHigh = std::is_same_v<Tile, FragmentsQ6_K>;
  typename Tile::Block block{};
  if constexpr (kHasHigh) {
    block.scale = tile.scales[row];
    for (int s = 0; s < 16; ++s) block.scales[s] = static_cast<int8_t>(tile.headers[row][s] - 128);
  } else {
    std::memcpy(static_cast<void*>(&block), tile.headers[row], sizeof(tile.headers[row]));
  }
  for (int t = 0; t < kLanesOfRow; ++t) {
    const int lane = row * kLanesOfRow + t;
    for_each_element<Tile>(t, [&](int w, int i, int column) {
      const Nibble at = nibble_of(block, column);
      const uint32_t low = tile.low[w / 4][lane][w % 4] >> nibble_shift(i) & 15;
      low_bytes(block)[at.byte] |= static_cast<uint8_t>(low << at.shift);
      if constexpr (kHasHigh)
        block.high_bits[high_byte(column)] |= static_cast<uint8_t>(
            (tile.high[lane][w / 2] >> pair_shift(w, i) & 3) << high_shift(column));
    });
  }
  return block;
}

template <typename Body>
void with_fragment_type(DType dtype, const Body& body) {
  RIDGE_CHECK(is_fragments(dtype), "{} is no type of fragment tiles", name(dtype));
  if (dtype == DType::kQ4_Kx8)
    body(std::type_identity<FragmentsQ4_K>());
  else
    body(std::type_identity<FragmentsQ6_K>());
}

// Calls body(byte of the block in rows, tile's index, row in the tile) for each block.
template <typename Tile, typename Body>
void for_each_block(int64_t in, size_t bytes, const Body& body) {
  const auto across = static_cast<size_t>(in / kFragmentColumns);
  const size_t row_bytes = across * sizeof(typename Tile::Block);
  RIDGE_CHECK(in % kFragmentColumns == 0 && bytes % (kFragmentRows * row_bytes) == 0,
              "{} bytes of rows of {} are no tiles", bytes, in);
  for (size_t row = 0; row < bytes / row_bytes; ++row)
    for (size_t k = 0; k < across; ++k)
      body(row * row_bytes + k * sizeof(typename Tile::Block), row / kFragmentRows * across + k,
           static_cast<int>(row % kFragmentRows));
}

}  // namespace

DType fragment_dtype(DType dtype, const Shape& shape) {
  const bool fits = shape.rank() == 2 && shape.elements() > 0 && shape[0] % kFragmentRows == 0 &&
                    shape[1] % kFragmentColumns == 0;
  if (fits && dtype == DType::kQ4_K) return DType::kQ4_Kx8;
  if (fits && dtype == DType::kQ6_K) return DType::kQ6_Kx8;
  return dtype;
}

void pack_fragments(DType to,
                    int64_t in,
                    std::span<const std::byte> rows,
                    std::span<std::byte> tiles) {
  RIDGE_CHECK(rows.size() == tiles.size(), "{} bytes of tiles for {}", tiles.size(), rows.size());
  with_fragment_type(to, [&](auto type) {
    using Tile = typename decltype(type)::type;
    for_each_block<Tile>(in, rows.size(), [&](size_t at, size_t index, int row) {
      typename Tile::Block block;
      std::memcpy(&block, rows.data() + at, sizeof(block));
      pack_row(block, row, reinterpret_cast<Tile*>(tiles.data())[index]);
    });
  });
}

void unpack_fragments(DType from,
                      int64_t in,
                      std::span<const std::byte> tiles,
                      std::span<std::byte> rows) {
  RIDGE_CHECK(rows.size() == tiles.size(), "{} bytes of tiles for {}", tiles.size(), rows.size());
  with_fragment_type(from, [&](auto type) {
    using Tile = typename decltype(type)::type;
    for_each_block<Tile>(in, rows.size(), [&](size_t at, size_t index, int row) {
      const auto block = unpack_row(reinterpret_cast<const Tile*>(tiles.data())[index], row);
      std::memcpy(rows.data() + at, &block, sizeof(block));
    });
  });
}

}  // namespace base
}  // namespace ridge
