// SPDX-License-Identifier: Apache-2.0
// The table of pointwise functions: its counts must match docs/accounting.md, and its gradients
// must be the derivatives of its functions.
#include "base/pointwise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
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
