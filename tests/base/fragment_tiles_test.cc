// SPDX-License-Identifier: Apache-2.0
// Fragment tiles hold the blocks of their rows, and give them back bit by bit.
#include "base/fragment_tiles.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/bf16.h"
#include "base/error.h"
#include "base/random.h"

namespace ridge {
namespace {

constexpr int64_t kRows = 24, kIn = 768;

std::vector<std::byte> random_rows(DType dtype) {
  Random random(3);
  std::vector<std::byte> rows(static_cast<size_t>(storage_bytes(dtype, kRows * kIn)));
  for (std::byte& byte : rows) byte = static_cast<std::byte>(256 * random.uniform());
  return rows;
}

constexpr DType kFormats[] = {DType::kQ4_0,   DType::kQ4_1,   DType::kQ5_0, DType::kQ5_1,
                              DType::kQ8_0,   DType::kQ4_K,   DType::kQ5_K, DType::kQ6_K,
                              DType::kQ4_G32, DType::kQ4_G128};

TEST(FragmentTiles, GiveBackTheBlocksBitByBit) {
  for (DType dtype : kFormats) {
    const std::vector<std::byte> rows = random_rows(dtype);
    const DType packed = fragment_dtype(dtype, {kRows, kIn});
    ASSERT_TRUE(is_fragments(packed));
    ASSERT_EQ(storage_bytes(packed, kRows * kIn), std::ssize(rows));
    std::vector<std::byte> tiles(rows.size()), back(rows.size());
    pack_fragments(packed, kIn, rows, tiles);
    EXPECT_NE(tiles, rows);
    unpack_fragments(packed, kIn, tiles, back);
    EXPECT_EQ(back, rows) << name(dtype);
  }
}

// The column that a lane's element is said to have is the one that a tensor core multiplies: each
// column of a row once.
TEST(FragmentTiles, HaveTheQuantsOfAllColumns) {
  std::vector<int> times(kFragmentColumns);
  for (int t = 0; t < 4; ++t)
    for (int w = 0; w < 8; ++w)
      for (int i = 0; i < 8; ++i) ++times[static_cast<size_t>(fragment_column(w, t, i))];
  for (int count : times) EXPECT_EQ(count, 1);
  const std::vector<std::byte> rows = random_rows(DType::kQ4_K);
  std::vector<std::byte> bytes(rows.size());
  pack_fragments(DType::kQ4_Kx8, kIn, rows, bytes);
  std::vector<FragmentsQ4_K> tiles(bytes.size() / sizeof(FragmentsQ4_K));
  std::memcpy(tiles.data(), bytes.data(), bytes.size());
  constexpr int64_t kRow = 13, kBlock = 2;
  BlockQ4_K block;
  std::memcpy(&block, rows.data() + (kRow * 3 + kBlock) * static_cast<int64_t>(sizeof(block)),
              sizeof(block));
  const FragmentsQ4_K& tile = tiles[kRow / 8 * 3 + kBlock];
  // Column 77 = 64 + 13: the low nibble of byte 45; element 5 of word 2 of lane 1 of the row.
  EXPECT_EQ(tile.low[0][kRow % 8 * 4 + 1][2] >> 24 & 15, block.quants[45] & 15u);
  EXPECT_EQ(0, std::memcmp(tile.headers[kRow % 8], &block, 16));
}

// Element 5 of word 2 of lane 1 of a row: column 77, the 13th of block 2.
TEST(FragmentTiles, HaveQuantsOfBlocksWhereLanesReadThem) {
  constexpr int kRow = 13, kTile = 2, kColumn = 77, kBlock = kColumn / 32, kElement = kColumn % 32;
  const auto tile_of = [](DType dtype, auto& tiles, auto& row) {
    const std::vector<std::byte> rows = random_rows(dtype);
    std::vector<std::byte> bytes(rows.size());
    pack_fragments(fragment_dtype(dtype, {kRows, kIn}), kIn, rows, bytes);
    std::memcpy(&tiles, bytes.data() + (kRow / 8 * 3 + kTile) * sizeof(tiles), sizeof(tiles));
    std::memcpy(&row, rows.data() + (kRow * 3 + kTile) * sizeof(row), sizeof(row));
  };
  FragmentsQ8_0 bytes;
  BlockQ8_0 of_bytes[8];
  tile_of(DType::kQ8_0, bytes, of_bytes);
  EXPECT_EQ(static_cast<int>(bytes.low[1][kRow % 8 * 4 + 1][1] >> 8 & 255) - 128,
            of_bytes[kBlock].quants[kElement]);
  EXPECT_EQ(bytes.scales[kRow % 8][kBlock], of_bytes[kBlock].scale);
  FragmentsQ5_1 bits;
  BlockQ5_1 of_bits[8];
  tile_of(DType::kQ5_1, bits, of_bits);
  EXPECT_EQ(bits.low[0][kRow % 8 * 4 + 1][2] >> 24 & 15, of_bits[kBlock].quants[kElement] & 15u);
  EXPECT_EQ(bits.high[kRow % 8 * 4 + 1][0] >> 26 & 1,
            of_bits[kBlock].high_bits[kElement / 8] >> kElement % 8 & 1u);
  EXPECT_EQ(bits.mins[kRow % 8][kBlock], of_bits[kBlock].min);
  FragmentsQ4_G32 pairs;
  BlockQ4_G32 of_pairs[4];
  tile_of(DType::kQ4_G32, pairs, of_pairs);
  EXPECT_EQ(pairs.low[0][kRow % 8 * 4 + 1][2] >> 24 & 15, of_pairs[1].quants[kElement] & 15u);
  EXPECT_EQ(pairs.scales[kRow % 8][3], of_pairs[1].scales[1]);
  EXPECT_EQ(pairs.zeros[kRow % 8][3], of_pairs[1].zeros[1]);
  FragmentsQ4_G128 groups;
  BlockQ4_G128 of_groups[2];
  tile_of(DType::kQ4_G128, groups, of_groups);
  EXPECT_EQ(groups.low[0][kRow % 8 * 4 + 1][2] >> 24 & 15,
            of_groups[0].quants[16 * kBlock + kElement] & 15u);
  EXPECT_EQ(groups.scales[kRow % 8][1], of_groups[1].scales[0]);
  EXPECT_EQ(groups.zeros[kRow % 8][1], of_groups[1].zeros[0]);
}

TEST(FragmentTiles, AreOfWholeTilesAndTenTypes) {
  EXPECT_EQ(fragment_dtype(DType::kQ4_K, {8, 256}), DType::kQ4_Kx8);
  EXPECT_EQ(fragment_dtype(DType::kQ6_K, {24, 768}), DType::kQ6_Kx8);
  for (DType dtype : kFormats) EXPECT_TRUE(is_fragments(fragment_dtype(dtype, {8, 256})));
  for (const Shape& shape : {Shape{7, 256}, Shape{8, 128}, Shape{0, 256}, Shape{256}})
    EXPECT_EQ(fragment_dtype(DType::kQ4_K, shape), DType::kQ4_K) << shape.str();
  for (DType dtype : {DType::kQ2_K, DType::kQ4_0x16, DType::kBF16, DType::kQ4_Kx8})
    EXPECT_EQ(fragment_dtype(dtype, {8, 256}), dtype);
  std::vector<std::byte> bytes(1152 + 144);
  EXPECT_THROW(pack_fragments(DType::kQ4_Kx8, 256, bytes, bytes), InternalError);
  EXPECT_THROW(pack_fragments(DType::kQ4_K, 256, bytes, bytes), InternalError);
}

}  // namespace
}  // namespace ridge
