// SPDX-License-Identifier: Apache-2.0
// The table of pointwise functions: its counts must match docs/accounting.md, and its gradients
// must be the derivatives of its functions.
#include "base/pointwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <utility>

#include "test_paths.h"

namespace ridge {
namespace {

// The rows "| `silu` | 4 | 2 | ..." of the document, by name.
std::map<std::string, std::pair<int, int>> documented() {
  std::ifstream file(source_file("docs/accounting.md"));
  std::map<std::string, std::pair<int, int>> rows;
  const std::regex row(R"(\| `(\w+)` \| (\d+) \| (\d+) \|.*)");
  std::smatch match;
  for (std::string line; std::getline(file, line);)
    if (std::regex_match(line, match, row))
      rows[match[1]] = {std::stoi(match[2]), std::stoi(match[3])};
  return rows;
}

TEST(Pointwise, CountsAreTheDocuments) {
  auto rows = documented();
  EXPECT_EQ(rows.size(), pointwise_table().size());
  for (const PointwiseInfo& function : pointwise_table()) {
    ASSERT_TRUE(rows.contains(std::string(function.name))) << function.name;
    EXPECT_EQ(rows[std::string(function.name)], std::pair(function.flops, function.transcendentals))
        << function.name;
  }
}

// An operand or a parameter that the table names changes the value, and no other does. Selections
// ignore one of their operands, so three places are tried.
TEST(Pointwise, ValuesDependOnWhatTheTableNames) {
  constexpr double kPlaces[][2] = {{0.7, 1.3}, {1.3, 0.7}, {0.01, 1.3}};
  for (const PointwiseInfo& function : pointwise_table()) {
    const auto changes = [&](double da, double db, double dp) {
      return std::any_of(std::begin(kPlaces), std::end(kPlaces), [&](const double* at) {
        return evaluate(function.function, at[0] + da, at[1] + db, 1.9 + dp) !=
               evaluate(function.function, at[0], at[1], 1.9);
      });
    };
    EXPECT_TRUE(changes(-0.1, 0, 0)) << function.name;
    EXPECT_EQ(changes(0, 0.1, 0), function.arity == 2) << function.name;
    EXPECT_EQ(changes(0, 0, 0.1), function.has_parameter) << function.name;
  }
}

TEST(Pointwise, ChoicesPassOnWhatIsNoNumber) {
  const double nan = std::nan("");
  for (Pointwise function : {Pointwise::kMax, Pointwise::kMin}) {
    EXPECT_TRUE(std::isnan(evaluate(function, nan, 1, 0)));
    EXPECT_TRUE(std::isnan(evaluate(function, 1, nan, 0)));
  }
  EXPECT_TRUE(std::isnan(evaluate(Pointwise::kRelu, nan, 0, 0)));
}

TEST(Pointwise, ValuesAreThoseOfArithmetic) {
  const auto value = [](Pointwise function, double a) { return evaluate(function, a, 4, 5); };
  EXPECT_EQ(value(Pointwise::kAdd, 3), 7);
  EXPECT_EQ(value(Pointwise::kSub, 3), -1);
  EXPECT_EQ(value(Pointwise::kMul, 3), 12);
  EXPECT_EQ(value(Pointwise::kDiv, 3), 0.75);
  EXPECT_EQ(value(Pointwise::kNeg, 3), -3);
  EXPECT_EQ(value(Pointwise::kScale, 3), 15);
  EXPECT_EQ(value(Pointwise::kAddScalar, 3), 8);
  EXPECT_EQ(value(Pointwise::kSquare, 3), 9);
  EXPECT_EQ(value(Pointwise::kAbs, -3), 3);
  EXPECT_EQ(value(Pointwise::kRelu, -3), 0);
  EXPECT_EQ(value(Pointwise::kRelu, 3), 3);
  EXPECT_EQ(value(Pointwise::kMax, 3), 4);
  EXPECT_EQ(value(Pointwise::kMin, 3), 3);
  EXPECT_EQ(value(Pointwise::kStep, 0), 0);
  EXPECT_EQ(value(Pointwise::kStep, 3), 1);
  EXPECT_NEAR(value(Pointwise::kSin, 2) * value(Pointwise::kSin, 2) +
                  value(Pointwise::kCos, 2) * value(Pointwise::kCos, 2),
              1, 1e-15);
  EXPECT_EQ(value(Pointwise::kSqrt, 16), 4);
  EXPECT_EQ(value(Pointwise::kRsqrt, 16), 0.25);
  EXPECT_EQ(value(Pointwise::kReciprocal, 16), 0.0625);
  EXPECT_DOUBLE_EQ(value(Pointwise::kLog, value(Pointwise::kExp, 2)), 2);
  EXPECT_DOUBLE_EQ(value(Pointwise::kTanh, 2), 2 * value(Pointwise::kSigmoid, 4) - 1);
  EXPECT_DOUBLE_EQ(value(Pointwise::kSigmoid, 2) + value(Pointwise::kSigmoid, -2), 1);
}

void expect_slope(Pointwise function, Pointwise backward) {
  constexpr double kStep = 1e-5;
  for (double x = -6; x <= 6; x += 0.37) {
    double slope =
        (evaluate(function, x + kStep, 0, 0) - evaluate(function, x - kStep, 0, 0)) / (2 * kStep);
    EXPECT_NEAR(evaluate(backward, x, 1.5, 0), 1.5 * slope, 1e-8) << x;
  }
}

TEST(Pointwise, GradientsAreSlopes) {
  expect_slope(Pointwise::kSilu, Pointwise::kSiluBackward);
  expect_slope(Pointwise::kGeluTanh, Pointwise::kGeluTanhBackward);
}

}  // namespace
}  // namespace ridge
