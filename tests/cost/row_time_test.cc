// SPDX-License-Identifier: Apache-2.0
// The time of rows between the measured widths.
#include "cost/row_time.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ridge::cost {
namespace {

TEST(RowTime, InterpolatesBetweenTheMeasuredWidths) {
  Ceilings c;
  EXPECT_FALSE(row_ns_per_element(c, "softmax", DType::kBF16, 100));
  // A row takes 60 ns besides 0.5 ns an element, and long ones 0.75 ns an element.
  const double ns[] = {0.5 + 60.0 / 48, 0.5 + 60.0 / 768, 0.75};
  for (size_t i = 0; i < kRowWidths.size(); ++i)
    c.functions.push_back({row_function("softmax", DType::kBF16, kRowWidths[i]), 1 / ns[i]});
  EXPECT_EQ(c.functions[1].function, "softmax bf16 768");
  auto at = [&](int64_t width) { return *row_ns_per_element(c, "softmax", DType::kBF16, width); };
  for (int64_t width : {1, 10, 48, 200, 768})
    EXPECT_NEAR(at(width), 0.5 + 60.0 / static_cast<double>(width), 1e-9) << width;
  const auto middle = static_cast<int64_t>(std::sqrt(768.0 * 6144));
  EXPECT_NEAR(at(middle), (ns[1] + ns[2]) / 2, 1e-4);
  EXPECT_NEAR(at(6144), 0.75, 1e-9);
  EXPECT_NEAR(at(1 << 20), 0.75, 1e-9);
  EXPECT_FALSE(row_ns_per_element(c, "softmax", DType::kF32, 100));
}

}  // namespace
}  // namespace ridge::cost
