// SPDX-License-Identifier: Apache-2.0
// Rounding of keys and values to the type of their cache, bit by bit, for any head size and for
// values that are no ordinary numbers. The op's cases test where they are written.
#include <gtest/gtest.h>

#include <limits>

#include "backends/cpu/kernels/cache/kv_cache.h"
#include "backends/cpu_kernel_fixture.h"

namespace ridge::backends::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// One token of one head at position 2 of a cache of five; its values are its keys, negated.
template <typename C>
struct Appended {
  explicit Appended(std::vector<float> head)
      : size(static_cast<int64_t>(head.size())),
        keys(head.size() * 5, C{77}),
        values(keys),
        key_scales(5, 7.0f),
        value_scales(key_scales) {
    std::vector<float> negated(head);
    for (float& x : negated) x = -x;
    const int32_t position = 2, slot = 0, block = 0;
    KvAppend<float, C> call;
    call.cells = {1, &position, &slot, &block, 1, 1, 1, 5};
    call.k = {head.data(), size, size};
    call.v = {negated.data(), size, size};
    call.keys = {keys.data(), 1, size, key_scales.data(), 5};
    call.values = {values.data(), 1, size, value_scales.data(), 5};
    kv_append(call);
    for (size_t i = 0; i < keys.size(); ++i) {
      if (i / head.size() != 2) {
        EXPECT_TRUE(keys[i] == C{77} && values[i] == C{77}) << "another cell changed";
      }
    }
  }
  C key(int64_t e) const { return keys[static_cast<size_t>(2 * size + e)]; }
  C value(int64_t e) const { return values[static_cast<size_t>(2 * size + e)]; }
  float scale() const { return key_scales[2]; }

  int64_t size;
  std::vector<C> keys, values;
  std::vector<float> key_scales, value_scales;
};

RIDGE_CPU_KERNEL_SUITE(CpuKvAppend);

TEST_P(CpuKvAppend, RoundsToBf16AsTheScalarConversionDoes) {
  for (int64_t size : {1, 7, 8, 9, 64, 67}) {
    std::vector<float> head = random_values<float>(size, 3, 100);
    head[0] = 1.00390625f;  // halfway between two
    if (size > 6) {
      head[1] = 1.01171875f;
      head[2] = kInfinity;
      head[3] = kNan;
      head[4] = 3.4e38f;  // rounds to infinity
      head[5] = -0.0f;
    }
    const Appended<uint16_t> made(head);
    for (int64_t e = 0; e < size; ++e) {
      ASSERT_EQ(made.key(e), float_to_bf16(head[static_cast<size_t>(e)])) << e;
      ASSERT_EQ(made.value(e), float_to_bf16(-head[static_cast<size_t>(e)])) << e;
    }
  }
}

TEST_P(CpuKvAppend, RoundsToTheNearestQuant) {
  for (int64_t size : {1, 7, 8, 9, 64, 67})
    for (float range : {1e-30f, 0.5f, 3e38f}) {
      const std::vector<float> head = random_values<float>(size, 5, range);
      float most = 0;
      for (float x : head) most = std::max(most, std::abs(x));
      const Appended<int8_t> made(head);
      EXPECT_EQ(made.scale(), most / 127.0f);
      EXPECT_EQ(made.value_scales[2], made.scale());
      EXPECT_EQ(made.key_scales[1] + made.key_scales[3], 14.0f) << "another cell's scale changed";
      for (int64_t e = 0; e < size; ++e) {
        const double x = head[static_cast<size_t>(e)], quant = made.key(e), scale = made.scale();
        ASSERT_LE(std::abs(x - quant * scale), scale * (0.5 + 1e-5)) << x << " is quant " << quant;
        ASSERT_EQ(made.value(e), -quant);
      }
    }
}

TEST_P(CpuKvAppend, RoundsHalvesToEvenCodes) {
  // The scale is 1.
  const std::vector<float> head{127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 0.49999997f, 126.5f, -126.5f};
  const std::vector<int> want{127, 0, 2, 2, 0, -2, 0, 126, -126};
  const Appended<int8_t> made(head);
  EXPECT_EQ(made.scale(), 1.0f);
  for (size_t e = 0; e < head.size(); ++e)
    EXPECT_EQ(made.key(static_cast<int64_t>(e)), want[e]) << head[e];
}

TEST_P(CpuKvAppend, NegligibleHeadsAreZero) {
  for (float x : {0.0f, -0.0f, 1e-40f, 1e-37f}) {
    const Appended<int8_t> made(std::vector<float>(11, x));
    EXPECT_EQ(made.scale(), 0.0f);
    for (int64_t e = 0; e < 11; ++e) EXPECT_EQ(made.key(e), 0);
  }
}

TEST_P(CpuKvAppend, AValueThatIsNoNumberMakesItsHeadNan) {
  for (float x : {kNan, kInfinity, -kInfinity})
    for (size_t at : {size_t{0}, size_t{9}, size_t{16}}) {
      std::vector<float> head(17, 1.0f);
      head[at] = x;
      const Appended<int8_t> made(head);
      EXPECT_TRUE(std::isnan(made.scale()));
      for (int64_t e = 0; e < 17; ++e) EXPECT_EQ(made.key(e), 0);
    }
}

}  // namespace
}  // namespace ridge::backends::cpu
