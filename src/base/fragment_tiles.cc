// SPDX-License-Identifier: Apache-2.0
// Packs blocks into fragment tiles, and back. Plain loops: a model is packed once.
#include "base/fragment_tiles.h"

#include <array>
#include <cstring>
#include <type_traits>

#include "base/error.h"

namespace ridge {
inline namespace base {
namespace {

constexpr int kLanesOfRow = 4, kWords = 8, kElements = 8;

// A field of some bits of a byte or a word.
template <typename Word>
struct Field {
  Word& word;
  int shift, width;
  uint32_t get() const { return word >> shift & ((1u << width) - 1); }
  void put(uint32_t bits) const { word = static_cast<Word>(word | bits << shift); }
};
using ByteField = Field<uint8_t>;
using WordField = Field<uint32_t>;

// The low bits of the quant in a column of a row's blocks.
template <typename Block>
ByteField low_field(Block* blocks, int column) {
  uint8_t* quants = blocks[column / 32].quants;
  return {quants[column % 16], column % 32 / 16 * 4, 4};
}
template <HasZeros Block>
ByteField low_field(Block* blocks, int column) {
  const int in_block = column % Block::kElements;
  return {blocks[column / Block::kElements].quants[in_block / 32 * 16 + column % 16],
          column % 32 / 16 * 4, 4};
}
ByteField low_field(BlockQ8_0* blocks, int column) {
  return {reinterpret_cast<uint8_t&>(blocks[column / 32].quants[column % 32]), 0, 8};
}
ByteField nibble_of_pair(uint8_t* quants, int column) {
  return {quants[column / 64 * 32 + column % 32], column % 64 / 32 * 4, 4};
}
ByteField low_field(BlockQ4_K* block, int column) { return nibble_of_pair(block->quants, column); }
ByteField low_field(BlockQ5_K* block, int column) { return nibble_of_pair(block->quants, column); }
ByteField low_field(BlockQ6_K* block, int column) {
  const int group = column % 128 / 32;
  return {block->low_bits[column / 128 * 64 + group % 2 * 32 + column % 32], group / 2 * 4, 4};
}

// The bits above them.
template <typename Block>
ByteField high_field(Block* blocks, int column) {
  return {blocks[column / 32].high_bits[column % 32 / 8], column % 8, 1};
}
ByteField high_field(BlockQ5_K* block, int column) {
  return {block->high_bits[column % 32], column / 32, 1};
}
ByteField high_field(BlockQ6_K* block, int column) {
  return {block->high_bits[column / 128 * 32 + column % 32], column % 128 / 32 * 2, 2};
}

template <typename Tile>
constexpr bool kHasHigh = requires(Tile tile) {
  tile.high;
};
template <typename Tile>
constexpr bool kHasBytes = std::is_same_v<Tile, FragmentsQ8_0>;

template <typename Tile>
WordField low_field(Tile& tile, int lane, int w, int i) {
  if constexpr (kHasBytes<Tile>)
    return {tile.low[w / 2][lane][2 * w % 4 + i / 4], 8 * (i % 4), 8};
  else
    return {tile.low[w / 4][lane][w % 4], 4 * (i / 2 + 4 * (i % 2)), 4};
}
template <typename Tile>
WordField high_field(Tile& tile, int lane, int w, int i) {
  if constexpr (std::is_same_v<Tile, FragmentsQ6_K>)
    return {tile.high[lane][w / 2], 2 * (i / 2 + 4 * (w % 2)) + 16 * (i % 2), 2};
  else
    return {tile.high[lane][w / 4], 4 * (w % 4) + i / 2 + 16 * (i % 2), 1};
}

// The blocks of one row of a tile.
template <typename Tile>
using RowBlocks = std::array<typename Tile::Block, static_cast<size_t>(kFragmentBlocks<Tile>)>;

// Calls body(field of the tile, field of the row's blocks) for all low and high bits of a row.
template <typename Tile, typename Body>
void for_each_field(RowBlocks<Tile>& blocks, int row, Tile& tile, const Body& body) {
  for (int t = 0; t < kLanesOfRow; ++t)
    for (int w = 0; w < kWords; ++w)
      for (int i = 0; i < kElements; ++i) {
        const int lane = row * kLanesOfRow + t, column = fragment_column(w, t, i);
        body(low_field(tile, lane, w, i), low_field(blocks.data(), column));
        if constexpr (kHasHigh<Tile>)
          body(high_field(tile, lane, w, i), high_field(blocks.data(), column));
      }
}

// Calls copy(part of the tile, part of the row's blocks) for the scales of a row.
template <typename Tile, typename Copy>
void for_each_scale(RowBlocks<Tile>& blocks, int row, Tile& tile, const Copy& copy) {
  if constexpr (std::is_same_v<Tile, FragmentsQ6_K>) {
    copy(tile.scales[row], blocks[0].scale);
    for (int s = 0; s < 16; ++s)
      copy(tile.headers[row][s], reinterpret_cast<uint8_t&>(blocks[0].scales[s]));
  } else if constexpr (HasZeros<Tile>) {
    constexpr size_t kGroups = std::size(typename Tile::Block{}.scales);
    for (size_t g = 0; g < kGroups * blocks.size(); ++g) {
      auto& block = blocks[g / kGroups];
      copy(tile.scales[row][g], block.scales[g % kGroups]);
      copy(tile.zeros[row][g], block.zeros[g % kGroups]);
      if constexpr (requires { tile.unused; }) copy(tile.unused[row][g], block.unused[g % kGroups]);
    }
  } else if constexpr (requires { tile.headers; }) {
    for (int byte = 0; byte < 16; ++byte)
      copy(tile.headers[row][byte], reinterpret_cast<uint8_t*>(blocks.data())[byte]);
  } else {
    for (size_t b = 0; b < blocks.size(); ++b) {
      copy(tile.scales[row][b], blocks[b].scale);
      if constexpr (requires { tile.mins; }) copy(tile.mins[row][b], blocks[b].min);
    }
  }
}

// Signed bytes are stored plus 128.
template <typename Tile>
void flip_signs(int row, Tile& tile) {
  if constexpr (std::is_same_v<Tile, FragmentsQ6_K>)
    for (uint8_t& scale : tile.headers[row]) scale ^= 128;
  if constexpr (kHasBytes<Tile>)
    for (auto& vector : tile.low)
      for (int t = 0; t < kLanesOfRow; ++t)
        for (uint32_t& word : vector[row * kLanesOfRow + t]) word ^= 0x80808080u;
}

template <typename Tile>
void pack_row(RowBlocks<Tile> blocks, int row, Tile& tile) {
  for_each_scale(blocks, row, tile, [](auto& of_tile, const auto& own) { of_tile = own; });
  for_each_field(blocks, row, tile, [](const WordField& to, const ByteField& from) {
    to.word &= ~(((1u << to.width) - 1) << to.shift);
    to.put(from.get());
  });
  flip_signs(row, tile);
}

template <typename Tile>
RowBlocks<Tile> unpack_row(Tile tile, int row) {
  RowBlocks<Tile> blocks{};
  flip_signs(row, tile);
  for_each_scale(blocks, row, tile, [](const auto& of_tile, auto& own) { own = of_tile; });
  for_each_field(blocks, row, tile,
                 [](const WordField& from, const ByteField& to) { to.put(from.get()); });
  return blocks;
}

template <typename Body>
void with_fragment_type(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kQ4_0x8:
      return body(std::type_identity<FragmentsQ4_0>());
    case DType::kQ4_1x8:
      return body(std::type_identity<FragmentsQ4_1>());
    case DType::kQ5_0x8:
      return body(std::type_identity<FragmentsQ5_0>());
    case DType::kQ5_1x8:
      return body(std::type_identity<FragmentsQ5_1>());
    case DType::kQ8_0x8:
      return body(std::type_identity<FragmentsQ8_0>());
    case DType::kQ4_Kx8:
      return body(std::type_identity<FragmentsQ4_K>());
    case DType::kQ5_Kx8:
      return body(std::type_identity<FragmentsQ5_K>());
    case DType::kQ6_Kx8:
      return body(std::type_identity<FragmentsQ6_K>());
    case DType::kQ4_G32x8:
      return body(std::type_identity<FragmentsQ4_G32>());
    case DType::kQ4_G128x8:
      return body(std::type_identity<FragmentsQ4_G128>());
    default:
      RIDGE_CHECK(false, "{} is no type of fragment tiles", name(dtype));
  }
}

// Calls body(byte of the row's blocks in rows, tile's index, row in the tile) for each row of each
// tile.
template <typename Tile, typename Body>
void for_each_row(int64_t in, size_t bytes, const Body& body) {
  const auto across = static_cast<size_t>(in / kFragmentColumns);
  const size_t row_bytes = across * sizeof(RowBlocks<Tile>);
  RIDGE_CHECK(in > 0 && in % kFragmentColumns == 0 && bytes % (kFragmentRows * row_bytes) == 0,
              "{} bytes of rows of {} are no tiles", bytes, in);
  for (size_t row = 0; row < bytes / row_bytes; ++row)
    for (size_t k = 0; k < across; ++k)
      body(row * row_bytes + k * sizeof(RowBlocks<Tile>), row / kFragmentRows * across + k,
           static_cast<int>(row % kFragmentRows));
}

}  // namespace

DType fragment_dtype(DType dtype, const Shape& shape) {
  const bool fits = shape.rank() == 2 && shape.elements() > 0 && shape[0] % kFragmentRows == 0 &&
                    shape[1] % kFragmentColumns == 0;
  if (!fits) return dtype;
  switch (dtype) {
    case DType::kQ4_0:
      return DType::kQ4_0x8;
    case DType::kQ4_1:
      return DType::kQ4_1x8;
    case DType::kQ5_0:
      return DType::kQ5_0x8;
    case DType::kQ5_1:
      return DType::kQ5_1x8;
    case DType::kQ8_0:
      return DType::kQ8_0x8;
    case DType::kQ4_K:
      return DType::kQ4_Kx8;
    case DType::kQ5_K:
      return DType::kQ5_Kx8;
    case DType::kQ6_K:
      return DType::kQ6_Kx8;
    case DType::kQ4_G32:
      return DType::kQ4_G32x8;
    case DType::kQ4_G128:
      return DType::kQ4_G128x8;
    default:
      return dtype;
  }
}

void pack_fragments(DType to,
                    int64_t in,
                    std::span<const std::byte> rows,
                    std::span<std::byte> tiles) {
  RIDGE_CHECK(rows.size() == tiles.size(), "{} bytes of tiles for {}", tiles.size(), rows.size());
  with_fragment_type(to, [&](auto type) {
    using Tile = typename decltype(type)::type;
    for_each_row<Tile>(in, rows.size(), [&](size_t at, size_t index, int row) {
      RowBlocks<Tile> blocks;
      std::memcpy(&blocks, rows.data() + at, sizeof(blocks));
      pack_row(blocks, row, reinterpret_cast<Tile*>(tiles.data())[index]);
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
    for_each_row<Tile>(in, rows.size(), [&](size_t at, size_t index, int row) {
      const auto blocks = unpack_row(reinterpret_cast<const Tile*>(tiles.data())[index], row);
      std::memcpy(rows.data() + at, &blocks, sizeof(blocks));
    });
  });
}

}  // namespace base
}  // namespace ridge
