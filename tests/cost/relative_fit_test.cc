// SPDX-License-Identifier: Apache-2.0
// The fit of a linear law: exact samples give the law back, and no coefficient is negative.
#include "cost/relative_fit.h"

#include <gtest/gtest.h>

namespace ridge::cost {
namespace {

TEST(RelativeFit, FindsTheLawOfExactSamples) {
  std::vector<TimedTerms<3>> samples;
  for (const auto& [out, in] : {std::pair{576., 768.}, {1152., 768.}, {576., 1536.}})
    samples.push_back({{out * in, out, in}, 0.02 * out * in + 3 * out + 5 * in});
  const std::array<double, 3> found = fit_relative(samples);
  EXPECT_NEAR(found[0], 0.02, 1e-6);
  EXPECT_NEAR(found[1], 3, 1e-3);
  EXPECT_NEAR(found[2], 5, 1e-3);
}

// Errors count in proportion: of two samples that contradict each other, a thousandfold longer one
// has no more weight. (x / 1 - 1)^2 + (x / 3 - 1)^2 is smallest at x = 1.2.
TEST(RelativeFit, WeighsErrorsByTheTime) {
  EXPECT_NEAR(fit_relative<1>({{{1}, 1}, {{1000}, 3000}})[0], 1.2, 1e-9);
}

TEST(RelativeFit, NeverReturnsNegativeCoefficients) {
  // The line through both samples falls: 4 - x at x = 1 and 3.
  const std::array<double, 2> found = fit_relative<2>({{{1, 1}, 3}, {{1, 3}, 1}});
  EXPECT_EQ(found[1], 0);
  EXPECT_GT(found[0], 1);
  EXPECT_LT(found[0], 3);
}

}  // namespace
}  // namespace ridge::cost
