// SPDX-License-Identifier: Apache-2.0
// The model of charts: which roofs are drawn, and that pictures and the page draw the same ones.
#include "report/chart_model.h"

#include <gtest/gtest.h>

#include "report/bench_chart.h"
#include "report/lab_fixture.h"
#include "test_paths.h"

namespace ridge::report {
namespace {

using nlohmann::json;

json roofs() {
  return {{"memory",
           {{{"name", "L1"}, {"bytes_per_s", 4e11}},
            {{"name", "L2"}, {"bytes_per_s", 2e11}},
            {{"name", "memory"}, {"bytes_per_s", 1e10}, {"theoretical_bytes_per_s", 2e10}}}},
          {"arithmetic",
           {{{"name", "f32"}, {"dtype", "f32"}, {"flops_per_s", 1e11}},
            {{"name", "bf16"}, {"dtype", "bf16"}, {"flops_per_s", 4e11}}}},
          {"vector_flops_per_s", 3e10}};
}

RooflinePoint point(const std::string& dtype, const std::string& level, bool is_vector) {
  RooflinePoint made;
  made.dtype = dtype;
  made.level = level;
  made.is_vector = is_vector;
  return made;
}

std::vector<std::string> names(const std::vector<RooflinePoint>& points) {
  const json all = roofs();
  std::vector<std::string> found;
  for (const RoofLine& each : roof_lines(files::JsonField(all, "roofs"), points))
    found.push_back(each.name);
  return found;
}

using Names = std::vector<std::string>;

TEST(ChartModel, ARoofIsDrawnWhereAPointHasItsLevelOrType) {
  EXPECT_EQ(names({point("f32", "", false)}), (Names{"memory", "memory, sheet", "f32 GEMM"}));
  EXPECT_EQ(names({point("bf16", "L2", false)}),
            (Names{"L2", "memory", "memory, sheet", "bf16 GEMM"}));
  EXPECT_EQ(names({point("f32", "L1", true), point("bf16", "memory", false)}),
            (Names{"L1", "memory", "memory, sheet", "f32 GEMM", "bf16 GEMM", "vector"}));
  // A machine without rates of this type multiplies in f32.
  EXPECT_EQ(names({point("i16", "", false)}), (Names{"memory", "memory, sheet", "f32 GEMM"}));
}

TEST(ChartModel, ThePageGetsTheRatesOverItsPoints) {
  json all = roofs();
  const RooflinePoint one = point("bf16", "", false);
  const json made = roofline_json(files::JsonField(all, "roofs"), {&one, 1});
  EXPECT_EQ(made["memory_bytes_per_s"], 1e10);
  EXPECT_EQ(made["gemm"], (json{{"name", "bf16 GEMM"}, {"flops_per_s", 4e11}}));
  EXPECT_EQ(made["vector_flops_per_s"], 3e10);
  all["memory"] = json::array();
  EXPECT_TRUE(roofline_json(files::JsonField(all, "roofs"), {&one, 1}).is_null());
  cost::Ceilings ceilings = *lab_record().ceilings;
  const json by_type = rooflines_json(ceilings);
  for (const cost::ProductRates& rates : ceilings.products)
    EXPECT_TRUE(by_type.contains(std::string(name(rates.dtype))));
}

TEST(ChartModel, PicturesAndThePageDrawTheSame) {
  const RunFolder folder = read_run_folder(test_data("runs/h100"));
  const json document = folder_document(folder);
  const json& run = document["runs"].back();
  const std::string svg = roofline_chart(folder);
  ASSERT_GT(run["roofline"]["lines"].size(), 2u);
  for (const json& line : run["roofline"]["lines"])
    EXPECT_NE(svg.find(line["name"].get<std::string>()), svg.npos) << line;
  EXPECT_EQ(svg.find("bf16"), svg.npos) << "no GEMM of the run is in bf16";
}

TEST(ChartModel, LossesKeepTheirSteps) {
  LossPoints points;
  for (int64_t step = 0; step < 10; ++step) points.emplace_back(step, 10 - step);
  EXPECT_EQ(mean_losses(points), points);
  EXPECT_EQ(mean_losses(points, 3), (LossPoints{{1, 8.5}, {5, 4.5}, {8, 1.5}}));
}

}  // namespace
}  // namespace ridge::report
