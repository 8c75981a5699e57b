// SPDX-License-Identifier: Apache-2.0
// Panels of rows hold what the rows' blocks hold.
#include "base/row_panels.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/block_formats.h"
#include "base/error.h"
#include "base/random.h"

namespace ridge {
namespace {

constexpr int64_t kRows = 48, kWidth = 192;

std::vector<std::byte> some_blocks(DType dtype) {
  Random random(3);
  std::vector<std::byte> bytes(static_cast<size_t>(storage_bytes(dtype, kRows * kWidth)));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(255 * random.uniform());
  for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(info(dtype).bytes_per_block))
    bytes[at + 1] = bytes[at + 3] = std::byte{0x2c};  // a scale, or a min, about 1/16
  return bytes;
}

TEST(RowPanels, HoldTheBlocksOfTheirRows) {
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0}) {
    const std::vector<std::byte> rows = some_blocks(dtype);
    const DType packed = panel_dtype(dtype, {kRows, kWidth});
    ASSERT_TRUE(is_panels(packed));
    ASSERT_EQ(storage_bytes(packed, kRows * kWidth), static_cast<int64_t>(rows.size()));
    std::vector<std::byte> panels(rows.size());
    pack_panels(packed, kWidth, rows, panels);
    std::vector<float> want(kRows * kWidth), got(kWidth);
    dequantize(dtype, rows, want);
    for (int64_t row = 0; row < kRows; ++row) {
      dequantize_row(packed, panels.data(), row, got);
      for (int64_t i = 0; i < kWidth; ++i)
        ASSERT_EQ(got[static_cast<size_t>(i)], want[static_cast<size_t>(row * kWidth + i)])
            << name(dtype) << " row " << row << " column " << i;
    }
  }
}

TEST(RowPanels, AreOfWholePanelsAndFourTypes) {
  EXPECT_EQ(panel_dtype(DType::kQ4_0, {16, 64}), DType::kQ4_0x16);
  EXPECT_EQ(panel_dtype(DType::kQ4_1, {16, 64}), DType::kQ4_1x16);
  EXPECT_EQ(panel_dtype(DType::kQ5_0, {16, 64}), DType::kQ5_0x16);
  EXPECT_EQ(panel_dtype(DType::kQ8_0, {32, 128}), DType::kQ8_0x16);
  for (const Shape& shape : {Shape{15, 64}, Shape{16, 96}, Shape{0, 64}, Shape{64}})
    EXPECT_EQ(panel_dtype(DType::kQ4_0, shape), DType::kQ4_0) << shape.str();
  for (DType dtype : {DType::kQ5_1, DType::kQ6_K, DType::kBF16, DType::kQ8_0x16})
    EXPECT_EQ(panel_dtype(dtype, {16, 256}), dtype);
  std::vector<std::byte> bytes(18 * 16 * 2 + 1);
  EXPECT_THROW(pack_panels(DType::kQ4_0x16, 64, bytes, bytes), InternalError);
  EXPECT_THROW(pack_panels(DType::kQ4_0, 64, bytes, bytes), InternalError);
}

}  // namespace
}  // namespace ridge
