// SPDX-License-Identifier: Apache-2.0
// Repacked tiles contain the blocks of their rows.
#include "base/repacked_tiles.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "base/block_formats.h"
#include "base/error.h"
#include "base/random.h"

namespace ridge {
namespace {

constexpr int64_t kRows = 48;

std::vector<std::byte> some_blocks(DType dtype, int64_t width) {
  Random random(3);
  std::vector<std::byte> bytes(static_cast<size_t>(storage_bytes(dtype, kRows * width)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(256 * random.uniform());
  const size_t block = static_cast<size_t>(info(dtype).bytes_per_block),
               scale = dtype == DType::kQ6_K ? offsetof(BlockQ6_K, scale) : 0;
  for (size_t at = 0; at < bytes.size(); at += block)
    bytes[at + scale + 1] = bytes[at + 3] = std::byte{0x2c};  // a scale or a min, about 1/16
  return bytes;
}

TEST(RepackedTiles, HoldTheBlocksOfTheirRows) {
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0, DType::kQ4_K,
                      DType::kQ6_K, DType::kQ4_G32, DType::kQ4_G128}) {
    const int64_t width = info(dtype).elements_per_block > 64 ? 768 : 192;
    const std::vector<std::byte> rows = some_blocks(dtype, width);
    const DType packed = repacked_dtype(dtype, {kRows, width});
    ASSERT_TRUE(is_repacked(packed));
    ASSERT_EQ(storage_bytes(packed, kRows * width), static_cast<int64_t>(rows.size()));
    std::vector<std::byte> tiles(rows.size());
    repack_rows(packed, width, rows, tiles);
    std::vector<float> want(static_cast<size_t>(kRows * width)), got(static_cast<size_t>(width));
    dequantize(dtype, rows, want);
    for (int64_t row = 0; row < kRows; ++row) {
      dequantize_row(packed, tiles.data(), row, got);
      for (int64_t i = 0; i < width; ++i)
        ASSERT_EQ(got[static_cast<size_t>(i)], want[static_cast<size_t>(row * width + i)])
            << name(dtype) << " row " << row << " column " << i;
    }
  }
}

TEST(RepackedTiles, AreOfWholeTilesAndEightTypes) {
  EXPECT_EQ(repacked_dtype(DType::kQ4_0, {16, 64}), DType::kQ4_0x16);
  EXPECT_EQ(repacked_dtype(DType::kQ4_1, {16, 64}), DType::kQ4_1x16);
  EXPECT_EQ(repacked_dtype(DType::kQ5_0, {16, 64}), DType::kQ5_0x16);
  EXPECT_EQ(repacked_dtype(DType::kQ8_0, {32, 128}), DType::kQ8_0x16);
  EXPECT_EQ(repacked_dtype(DType::kQ4_K, {16, 256}), DType::kQ4_Kx16);
  EXPECT_EQ(repacked_dtype(DType::kQ6_K, {32, 768}), DType::kQ6_Kx16);
  EXPECT_EQ(repacked_dtype(DType::kQ4_G32, {16, 64}), DType::kQ4_G32x16);
  EXPECT_EQ(repacked_dtype(DType::kQ4_G128, {16, 128}), DType::kQ4_G128x16);
  EXPECT_EQ(repacked_dtype(DType::kQ4_G128, {16, 64}), DType::kQ4_G128);
  for (const Shape& shape : {Shape{15, 64}, Shape{16, 96}, Shape{0, 64}, Shape{64}})
    EXPECT_EQ(repacked_dtype(DType::kQ4_0, shape), DType::kQ4_0) << shape.str();
  for (DType dtype : {DType::kQ5_1, DType::kQ5_K, DType::kBF16, DType::kQ8_0x16})
    EXPECT_EQ(repacked_dtype(dtype, {16, 256}), dtype);
  EXPECT_EQ(repacked_dtype(DType::kQ6_K, {24, 256}), DType::kQ6_K);
  EXPECT_EQ(repacked_dtype(DType::kQ6_K, {256}), DType::kQ6_K);
  std::vector<std::byte> bytes(18 * 16 * 2 + 1);
  EXPECT_THROW(repack_rows(DType::kQ4_0x16, 64, bytes, bytes), InternalError);
  EXPECT_THROW(repack_rows(DType::kQ4_0, 64, bytes, bytes), InternalError);
}

}  // namespace
}  // namespace ridge
