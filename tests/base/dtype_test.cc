// SPDX-License-Identifier: Apache-2.0
// The table of element types, against the block layouts of the GGUF specification.
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace ridge {
namespace {

constexpr int kDTypes = static_cast<int>(DType::kQ6_K) + 1;

TEST(DType, EveryRowIsFoundByItsName) {
  std::set<std::string_view> names;
  for (int i = 0; i < kDTypes; ++i) {
    auto dtype = static_cast<DType>(i);
    EXPECT_EQ(info(dtype).dtype, dtype);
    EXPECT_EQ(parse_dtype(name(dtype)), dtype) << name(dtype);
    EXPECT_TRUE(names.insert(name(dtype)).second) << name(dtype) << " stands twice";
    EXPECT_GT(info(dtype).bytes_per_block, 0);
  }
  EXPECT_EQ(parse_dtype("fp32"), std::nullopt);
  EXPECT_EQ(parse_dtype(""), std::nullopt);
}

// Blocks of 32: a half-precision scale (and minimum), then packed quants. Blocks of 256: sub-block
// scales, quants, and one or two half-precision factors.
TEST(DType, BlocksHaveTheSizesOfTheirParts) {
  EXPECT_EQ(info(DType::kQ4_0).bytes_per_block, 2 + 32 / 2);
  EXPECT_EQ(info(DType::kQ4_1).bytes_per_block, 2 + 2 + 32 / 2);
  EXPECT_EQ(info(DType::kQ5_0).bytes_per_block, 2 + 4 + 32 / 2);
  EXPECT_EQ(info(DType::kQ5_1).bytes_per_block, 2 + 2 + 4 + 32 / 2);
  EXPECT_EQ(info(DType::kQ8_0).bytes_per_block, 2 + 32);
  EXPECT_EQ(info(DType::kQ4_0x16).bytes_per_block, 16 * 2 * info(DType::kQ4_0).bytes_per_block);
  EXPECT_EQ(info(DType::kQ4_1x16).bytes_per_block, 16 * 2 * info(DType::kQ4_1).bytes_per_block);
  EXPECT_EQ(info(DType::kQ5_0x16).bytes_per_block, 16 * 2 * info(DType::kQ5_0).bytes_per_block);
  EXPECT_EQ(info(DType::kQ8_0x16).bytes_per_block, 16 * 2 * info(DType::kQ8_0).bytes_per_block);
  EXPECT_EQ(info(DType::kQ4_Kx16).bytes_per_block, 16 * info(DType::kQ4_K).bytes_per_block);
  EXPECT_EQ(info(DType::kQ6_Kx16).bytes_per_block, 16 * info(DType::kQ6_K).bytes_per_block);
  EXPECT_EQ(info(DType::kQ2_K).bytes_per_block, 256 / 16 + 256 / 4 + 2 + 2);
  EXPECT_EQ(info(DType::kQ3_K).bytes_per_block, 256 / 8 + 256 / 4 + 12 + 2);
  EXPECT_EQ(info(DType::kQ4_K).bytes_per_block, 2 + 2 + 12 + 256 / 2);
  EXPECT_EQ(info(DType::kQ5_K).bytes_per_block, 2 + 2 + 12 + 256 / 8 + 256 / 2);
  EXPECT_EQ(info(DType::kQ6_K).bytes_per_block, 256 / 2 + 256 / 4 + 256 / 16 + 2);
  EXPECT_EQ(info(DType::kQ4_G32).bytes_per_block, 2 * 2 + 2 + 64 / 2);
  EXPECT_EQ(info(DType::kQ4_G128).bytes_per_block, 2 + 2 + 128 / 2);
  EXPECT_EQ(info(DType::kQ4_G32x16).bytes_per_block, 16 * info(DType::kQ4_G32).bytes_per_block);
  EXPECT_EQ(info(DType::kQ4_G128x16).bytes_per_block, 16 * info(DType::kQ4_G128).bytes_per_block);
  EXPECT_EQ(info(DType::kQ4_G32x8).bytes_per_block, 8 * 4 * info(DType::kQ4_G32).bytes_per_block);
  EXPECT_EQ(info(DType::kQ4_G128x8).bytes_per_block, 8 * 2 * info(DType::kQ4_G128).bytes_per_block);
  for (int i = 0; i < kDTypes; ++i) {
    auto dtype = static_cast<DType>(i);
    bool k_quant = name(dtype).ends_with("_k");
    int64_t elements = k_quant ? 256 : name(dtype).starts_with("q") ? 32 : 1;
    EXPECT_EQ(info(dtype).elements_per_block, elements) << name(dtype);
    EXPECT_EQ(is_block(dtype), elements > 1) << name(dtype);
  }
}

TEST(StorageBytes, CountsWholeBlocks) {
  EXPECT_EQ(storage_bytes(DType::kF32, 0), 0);
  EXPECT_EQ(storage_bytes(DType::kF32, 31977984), 127911936);
  EXPECT_EQ(storage_bytes(DType::kBF16, 3), 6);
  EXPECT_EQ(storage_bytes(DType::kQ4_0, 64), 36);
  EXPECT_EQ(storage_bytes(DType::kQ6_K, 512), 420);
}

TEST(StorageBytes, RefusesPartsOfBlocksNegativesAndOverflow) {
  auto code = [](DType dtype, int64_t elements) {
    try {
      storage_bytes(dtype, elements);
    } catch (const Error& error) {
      return error.code();
    }
    return ExitCode::kFine;
  };
  EXPECT_EQ(code(DType::kQ4_0, 33), ExitCode::kBadFile);
  EXPECT_EQ(code(DType::kQ4_K, 32), ExitCode::kBadFile);
  EXPECT_EQ(code(DType::kF32, -1), ExitCode::kBadFile);
  EXPECT_EQ(code(DType::kF32, INT64_MAX), ExitCode::kOutOfMemory);
  EXPECT_EQ(code(DType::kF64, 1LL << 60), ExitCode::kOutOfMemory);
  EXPECT_EQ(code(DType::kI8, INT64_MAX), ExitCode::kFine);
  EXPECT_EQ(code(DType::kQ8_0, (INT64_MAX / 32) * 32), ExitCode::kOutOfMemory);
}

}  // namespace
}  // namespace ridge
