// SPDX-License-Identifier: Apache-2.0
// Strided copies and fills on CPUs: every layout against a loop over all indices.
#include "backends/cpu/kernels/kernels.h"

#include "backends/cpu/kernels/copy/copy_plan.h"
#include "backends/cpu_kernel_fixture.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

RIDGE_CPU_KERNEL_SUITE(CpuCopy);

struct Case {
  CopyLayout layout;
  CopyPath path;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {{0, {}, {}, {}}, CopyPath::kRuns},
      {{1, {1}, {5}, {7}}, CopyPath::kRuns},
      {{1, {131}, {1}, {1}}, CopyPath::kRuns},
      {{1, {70000}, {1}, {1}}, CopyPath::kRuns},
      {{2, {5, 17}, {20, 1}, {17, 1}}, CopyPath::kRuns},
      {{3, {3, 4, 16}, {64, 16, 1}, {64, 16, 1}}, CopyPath::kRuns},
      {{3, {7, 3, 64}, {64, 448, 1}, {192, 64, 1}}, CopyPath::kRuns},  // heads before tokens
      {{4, {2, 3, 5, 8}, {1, 16, 48, 2}, {120, 40, 8, 1}}, CopyPath::kTranspose},
      {{2, {33, 70}, {1, 33}, {70, 1}}, CopyPath::kTranspose},
      {{2, {32, 32}, {1, 32}, {32, 1}}, CopyPath::kTranspose},
      {{2, {300, 257}, {1, 301}, {260, 1}}, CopyPath::kTranspose},
      {{2, {64, 1000}, {1, 64}, {1000, 1}}, CopyPath::kTranspose},
      {{2, {2, 3}, {1, 2}, {3, 1}}, CopyPath::kTranspose},
      {{3, {3, 40, 41}, {1640, 1, 40}, {1640, 41, 1}}, CopyPath::kTranspose},
      {{2, {9, 40}, {1, 0}, {40, 1}}, CopyPath::kRepeat},
      {{2, {6, 19}, {0, 1}, {19, 1}}, CopyPath::kRuns},
      {{2, {8, 50}, {100, 2}, {50, 1}}, CopyPath::kScalar},
      {{2, {8, 50}, {50, 1}, {100, 2}}, CopyPath::kScalar},
      {{2, {50, 9}, {9, 1}, {1, 50}},
       CopyPath::kTranspose},  // the same, with its dimensions in another order
      {{6, {2, 3, 2, 2, 3, 5}, {180, 1, 30, 90, 10, 3}, {180, 60, 30, 15, 5, 1}},
       CopyPath::kTranspose},
      {{6, {2, 2, 2, 2, 2, 2}, {1, 2, 4, 8, 16, 32}, {32, 16, 8, 4, 2, 1}}, CopyPath::kTranspose},
      {{5, {2, 3, 2, 3, 4}, {400, 80, 35, 9, 2}, {72, 24, 12, 4, 1}}, CopyPath::kScalar},
      {{2, {0, 8}, {8, 1}, {8, 1}}, CopyPath::kRuns},
  };
  return kCases;
}

template <typename Body>
void for_each_index(const CopyLayout& layout, const Body& body) {
  int64_t index[kCopyMaxRank] = {};
  int64_t count = 1;
  for (int d = 0; d < layout.rank; ++d) count *= layout.extents[d];
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, from = 0, to = 0;
    for (int d = layout.rank; d-- > 0;) {
      index[d] = rest % layout.extents[d];
      rest /= layout.extents[d];
      from += index[d] * layout.source_strides[d];
      to += index[d] * layout.target_strides[d];
    }
    body(from, to);
  }
}

template <typename From, typename To>
void check(const CopyLayout& layout, bool accumulate) {
  int64_t source_size = 1, target_size = 1;
  for_each_index(layout, [&](int64_t from, int64_t to) {
    source_size = std::max(source_size, from + 1);
    target_size = std::max(target_size, to + 1);
  });
  const auto source = random_values<From>(source_size, 1);
  auto target = random_values<To>(target_size + 3, 2);
  auto want = target;
  for_each_index(layout, [&](int64_t from, int64_t to) {
    const double value = to_double(source[from]);
    // One addition in fp32, one rounding to To.
    want[to] =
        from_double<To>(accumulate ? static_cast<float>(to_double(want[to]) + value) : value);
  });
  copy<From, To>({layout, source.data(), target.data(), accumulate});
  ASSERT_TRUE(same_bits(target, want)) << "rank " << layout.rank << " accumulate " << accumulate;
}

TEST_P(CpuCopy, EveryLayoutEqualsIndexingByStrides) {
  for (const Case& one : cases()) {
    EXPECT_EQ(plan_copy(one.layout).path, one.path);
    for (bool accumulate : {false, true}) {
      check<float, float>(one.layout, accumulate);
      check<float, uint16_t>(one.layout, accumulate);
      check<uint16_t, float>(one.layout, accumulate);
      check<uint16_t, uint16_t>(one.layout, accumulate);
      check<float, Float16>(one.layout, accumulate);
      check<Float16, float>(one.layout, accumulate);
      check<Float16, Float16>(one.layout, accumulate);
      check<uint16_t, Float16>(one.layout, accumulate);
      check<Float16, uint16_t>(one.layout, accumulate);
    }
  }
}

TEST_P(CpuCopy, PlanJoinsDimensions) {
  const CopyPlan dense = plan_copy({4, {2, 3, 1, 5}, {15, 5, 99, 1}, {15, 5, 77, 1}});
  EXPECT_EQ(dense.outer_rank, 0);
  EXPECT_EQ(dense.inner, 30);
  const CopyPlan slice = plan_copy({3, {4, 3, 5}, {30, 5, 1}, {15, 5, 1}});
  EXPECT_EQ(slice.outer_rank, 1);
  EXPECT_EQ(slice.inner, 15);
  EXPECT_EQ(slice.outer_source[0], 30);
}

template <typename T>
void copy_row(const std::vector<T>& from, std::vector<T>& to) {
  copy<T, T>({{1, {static_cast<int64_t>(from.size())}, {1}, {1}}, from.data(), to.data(), false});
}

template <typename T>
void check_bits(std::vector<T> bits) {
  const auto n = static_cast<int64_t>(bits.size());
  std::vector<T> plain(bits.size()), transposed(bits.size());
  copy_row(bits, plain);
  EXPECT_TRUE(same_bits(plain, bits));
  const int64_t side = 40;
  ASSERT_EQ(n, side * side);
  const CopyLayout transpose{2, {side, side}, {1, side}, {side, 1}};
  copy<T, T>({transpose, bits.data(), transposed.data(), false});
  copy<T, T>({transpose, transposed.data(), plain.data(), false});
  EXPECT_TRUE(same_bits(plain, bits));
}

// int32 and f16 data are copied as float and uint16_t: signalling NaNs and denormals keep their
// bits.
TEST_P(CpuCopy, SameTypeMovesBits) {
  Random random(3);
  std::vector<float> words;
  std::vector<uint16_t> halves;
  for (int i = 0; i < 1600; ++i) {
    uint32_t bits = random.next();
    if (i % 3 == 0) bits = (bits & 0x807fffffu) | 0x7f800000u;  // NaNs
    words.push_back(std::bit_cast<float>(bits));
    halves.push_back(static_cast<uint16_t>(bits >> 16));
  }
  check_bits(words);
  check_bits(halves);
}

TEST_P(CpuCopy, LargeCopiesAreStreamedRight) {
  const int64_t n = (9 << 20) + 5;  // 36 MiB of fp32, above the streaming threshold
  auto source = random_values<float>(n, 1);
  std::vector<float> target(n);
  copy_row(source, target);
  EXPECT_TRUE(same_bits(source, target));
  const int64_t side = 3001;
  std::vector<float> transposed(side * side);
  copy<float, float>(
      {{2, {side, side}, {1, side}, {side, 1}}, source.data(), transposed.data(), false});
  for (int64_t i = 0; i < side; i += 7) {
    for (int64_t j = 0; j < side; ++j) ASSERT_EQ(transposed[i * side + j], source[i + j * side]);
  }
}

TEST_P(CpuCopy, RefusesWhatIsNoLayout) {
  float value = 0.0f;
  EXPECT_THROW((copy<float, float>({{7, {}, {}, {}}, &value, &value, false})), InternalError);
  EXPECT_THROW((copy<float, float>({{1, {-1}, {1}, {1}}, &value, &value, false})), InternalError);
  EXPECT_THROW((copy<float, float>({{1, {2}, {-1}, {1}}, &value, &value, false})), InternalError);
}

template <typename T>
void check_fill(int64_t rows, int64_t columns, int64_t stride, float value) {
  auto y = random_values<T>(rows * stride, 1);
  auto want = y;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) want[r * stride + c] = from_double<T>(value);
  }
  fill<T>({rows, columns, {y.data(), stride}, value});
  ASSERT_TRUE(same_bits(y, want)) << rows << " x " << columns;
}

TEST_P(CpuCopy, FillSetsItsRowsOnly) {
  for (float value : {0.0f, -1.25f, 3.14159f}) {
    for (int64_t columns : {1, 7, 16, 33, 4000}) {
      for (int64_t rows : {1, 3, 101}) {
        check_fill<float>(rows, columns, columns, value);
        check_fill<float>(rows, columns, columns + 3, value);
        check_fill<uint16_t>(rows, columns, columns, value);
        check_fill<Float16>(rows, columns, columns, value);
        check_fill<uint16_t>(rows, columns, columns + 3, value);
        check_fill<Float16>(rows, columns, columns + 3, value);
      }
    }
  }
  check_fill<float>(1, (8 << 20) + 3, (8 << 20) + 3, 2.5f);  // above the streaming threshold
}

}  // namespace
}  // namespace ridge::backends::cpu
