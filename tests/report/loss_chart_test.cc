// SPDX-License-Identifier: Apache-2.0
// The picture of losses: values at their pixels, hostile logs.
#include "report/bench_chart.h"

#include <gtest/gtest.h>

#include "files/scratch.h"

namespace ridge::report {
namespace {

// The points of the n-th polyline.
std::vector<std::pair<double, double>> points_of(const std::string& svg, int n) {
  size_t at = 0;
  const std::string mark = "<polyline points=\"";
  for (int i = 0; i <= n; ++i) at = svg.find(mark, at) + mark.size();
  std::vector<std::pair<double, double>> points;
  std::istringstream text(svg.substr(at, svg.find('"', at) - at));
  for (std::string each; text >> each;) {
    const size_t comma = each.find(',');
    points.emplace_back(std::stod(each.substr(0, comma)), std::stod(each.substr(comma + 1)));
  }
  return points;
}

TEST(LossChart, PutsLossesAtTheirPixels) {
  const LossCurve curve{"a<b", {{0, 8.0}, {50, 4.0}, {100, 2.0}}, {{100, 3.0}}};
  const std::string svg = loss_chart({&curve, 1});
  // The frame is 56 to 704 pixels wide, and 356 to 36 high for losses of 2 to 8.
  const std::vector<std::pair<double, double>> expected{{56, 36}, {380, 249.3}, {704, 356}};
  EXPECT_EQ(points_of(svg, 0), expected);
  EXPECT_EQ(points_of(svg, 1), (std::vector<std::pair<double, double>>{{704, 302.7}}));
  EXPECT_NE(svg.find("a&lt;b"), std::string::npos);
  EXPECT_NE(svg.find("training 2.000, validation 3.000 (dots)"), std::string::npos);
}

TEST(LossChart, ManyStepsAreMeans) {
  LossCurve curve{"long", {}, {}};
  for (int64_t step = 0; step < 1000; ++step) curve.training.emplace_back(step, step % 3);
  const auto points = points_of(loss_chart({&curve, 1}), 0);
  ASSERT_EQ(points.size(), 334u);  // three steps each, and the last one alone
  for (size_t i = 0; i + 1 < points.size(); ++i)
    EXPECT_NEAR(points[i].second, points[0].second, 1e-9);
}

TEST(LossChart, OneValueAloneAndNothingAtAll) {
  const LossCurve one{"one", {{5, 2.0}}, {}}, none{"none", {}, {}};
  EXPECT_EQ(points_of(loss_chart({&one, 1}), 0).size(), 1u);
  files::expect_error([&] { loss_chart({&none, 1}); }, ExitCode::kUsage, "at least one step");
  files::expect_error([&] { loss_chart({}); }, ExitCode::kUsage, "1 to 8 folders");
}

TEST(LossChart, ReadsALogAndRefusesOthers) {
  const files::ScratchFolder folder;
  files::write_plain(
      folder / "metrics.jsonl",
      "{\"step\": 1, \"loss\": 4.5}\n{\"step\": 0, \"loss\": 5}\n"
      "{\"step\": 2, \"loss\": null}\n{\"step\": 2, \"validation_loss\": 4.25}\n{\"st");
  const LossCurve curve = read_loss_curve(folder.path());
  EXPECT_EQ(curve.training, (std::vector<std::pair<int64_t, double>>{{0, 5}, {1, 4.5}}));
  EXPECT_EQ(curve.validation, (std::vector<std::pair<int64_t, double>>{{2, 4.25}}));
  EXPECT_EQ(curve.name, folder.path().filename().string());
  files::write_plain(folder / "metrics.jsonl", "{\"step\": 1, \"loss\": 4.5}\n[]\n");
  files::expect_error([&] { read_loss_curve(folder.path()); }, ExitCode::kBadFile,
                      "line 2: expected an object with a step");
  files::expect_error([&] { read_loss_curve(folder / "missing"); }, ExitCode::kBadFile,
                      "cannot open");
}

}  // namespace
}  // namespace ridge::report
