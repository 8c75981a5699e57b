// SPDX-License-Identifier: Apache-2.0
// Shapes from valid and from malicious extents.
#include "base/shape.h"

#include <gtest/gtest.h>

#include <limits>

#include "files/scratch.h"

namespace ridge {
namespace {

ExitCode code_of(const std::vector<int64_t>& dims) {
  try {
    Shape shape{std::span<const int64_t>(dims)};
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::kFine;
}

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape({2, 3, 5}).elements(), 30);
  EXPECT_EQ(Shape({7}).elements(), 7);
  EXPECT_EQ(Shape({}).elements(), 1);
  EXPECT_EQ(Shape({}).rank(), 0);
  EXPECT_EQ(Shape({4, 0, 3}).elements(), 0);
  EXPECT_EQ(Shape({2, 3}).str(), "[2,3]");
  EXPECT_EQ(Shape({}).str(), "[]");
}

TEST(Shape, RefusesNegativeExtents) {
  EXPECT_EQ(code_of({-1}), ExitCode::kUsage);
  EXPECT_EQ(code_of({3, INT64_MIN, 2}), ExitCode::kUsage);
}

TEST(Shape, RefusesProductsThatDoNotFitIn63Bits) {
  EXPECT_EQ(code_of({INT64_MAX}), ExitCode::kFine);
  EXPECT_EQ(code_of({INT64_MAX, 1, 1}), ExitCode::kFine);
  EXPECT_EQ(code_of({INT64_MAX, 2}), ExitCode::kOutOfMemory);
  EXPECT_EQ(code_of({1LL << 31, 1LL << 31, 2}), ExitCode::kOutOfMemory);
  EXPECT_EQ(code_of({1LL << 31, 1LL << 31, 1}), ExitCode::kFine);
  // 2^64 wraps to 0 in 64 bits.
  EXPECT_EQ(code_of({1LL << 32, 1LL << 32}), ExitCode::kOutOfMemory);
}

TEST(Shape, AZeroExtentHidesNoOverflow) {
  EXPECT_EQ(code_of({0, 1LL << 40, 1LL << 40}), ExitCode::kOutOfMemory);
  EXPECT_EQ(code_of({1LL << 40, 0, 1LL << 40}), ExitCode::kOutOfMemory);
}

TEST(Shape, RefusesMoreThanSixAxes) {
  EXPECT_EQ(code_of({1, 1, 1, 1, 1, 1}), ExitCode::kFine);
  EXPECT_EQ(code_of({1, 1, 1, 1, 1, 1, 1}), ExitCode::kUsage);
}

TEST(Shape, NamesAxesFromBothEnds) {
  Shape shape({2, 3, 5});
  EXPECT_EQ(shape.axis(0), 0);
  EXPECT_EQ(shape.axis(-1), 2);
  EXPECT_EQ(shape.axis(-3), 0);
  EXPECT_THROW(shape.axis(3), Error);
  EXPECT_THROW(shape.axis(-4), Error);
  EXPECT_THROW(Shape({}).axis(0), Error);
}

TEST(Shape, WithChecksTheNewProduct) {
  EXPECT_EQ(Shape({2, 3}).with(1, 7), Shape({2, 7}));
  EXPECT_THROW(Shape({1LL << 40, 3}).with(1, 1LL << 40), Error);
  EXPECT_THROW(Shape({2, 3}).with(0, -1), Error);
}

TEST(Shape, EqualityNeedsTheSameRank) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({2, 3, 1}));
  EXPECT_FALSE(Shape({}) == Shape({1}));
}

TEST(DenseStrides, AreRowMajor) {
  EXPECT_EQ(dense_strides(Shape({2, 3, 5})), Strides({15, 5, 1}));
  EXPECT_EQ(dense_strides(Shape({7})), Strides({1}));
  EXPECT_EQ(dense_strides(Shape({})).rank(), 0);
  // The elements of a dense tensor have distinct places, in order.
  Shape shape({3, 1, 4, 2});
  Strides strides = dense_strides(shape);
  int64_t expected = 0;
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t k = 0; k < 4; ++k)
      for (int64_t l = 0; l < 2; ++l)
        EXPECT_EQ(i * strides[0] + k * strides[2] + l * strides[3], expected++);
}

TEST(CheckedProduct, NamesWhatIsTooLarge) {
  EXPECT_EQ(checked_product(1LL << 31, 1LL << 31, "cache"), 1LL << 62);
  files::expect_error([] { checked_product(1LL << 32, 1LL << 31, "cache"); },
                      ExitCode::kOutOfMemory, "[cache]");
}

TEST(CheckedSum, NamesWhatIsTooLarge) {
  EXPECT_EQ(checked_sum((1LL << 62) - 1, 1LL << 62, "FLOPs"), std::numeric_limits<int64_t>::max());
  files::expect_error([] { checked_sum(1LL << 62, 1LL << 62, "FLOPs"); }, ExitCode::kOutOfMemory,
                      "[FLOPs]");
}

TEST(Rounding, CeilDivAndRoundUp) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
  EXPECT_EQ(round_up(65, 64), 128);
  EXPECT_EQ(round_up(64, 64), 64);
}

}  // namespace
}  // namespace ridge
