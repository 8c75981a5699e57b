// SPDX-License-Identifier: Apache-2.0
// Pictures of benches: times and roofs at their pixels, hostile folders.
#include "report/bench_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "files/scratch.h"
#include "report/lab_files.h"
#include "report/lab_fixture.h"

namespace ridge::report {
namespace {

using nlohmann::json;

json point(const std::string& form, int64_t n, double measured, double predicted) {
  return {{"name", "matmul"}, {"shape", {{"n", n}}},   {"form", form},
          {"phase", ""},      {"median_ns", measured}, {"predicted_ns", predicted},
          {"flops", 2000},    {"bytes", 1000},         {"dtype", "fp32"}};
}

RunFolder folder_of(const std::string& kind, json result) {
  json bench = {{"version", 1}, {"kind", kind}, {"result", std::move(result)}};
  // 10 GB/s and 100 GFLOP/s: a ridge point of 10 FLOP/B.
  bench["roofs"] = {{"memory", {{{"name", "memory"}, {"bytes_per_s", 1e10}}}},
                    {"arithmetic", {{{"name", "f32"}, {"dtype", "f32"}, {"flops_per_s", 1e11}}}},
                    {"vector_flops_per_s", nullptr}};
  return {"a folder", {{"bench.json", std::move(bench)}}};
}

// All matches of a pattern with numbers in its groups.
std::vector<std::vector<double>> numbers(const std::string& svg, const std::string& pattern) {
  std::vector<std::vector<double>> all;
  const std::regex regex(pattern);
  for (std::sregex_iterator each(svg.begin(), svg.end(), regex), end; each != end; ++each) {
    all.emplace_back();
    for (size_t group = 1; group < each->size(); ++group)
      all.back().push_back(std::stod((*each)[group]));
  }
  return all;
}

constexpr const char* kCircle = "<circle cx=\"([0-9.]+)\" cy=\"([0-9.]+)\"";
constexpr const char* kBar =
    "<rect x=\"230\" y=\"([0-9.]+)\" width=\"([0-9.]+)\" height=\"14\" fill=\"";

TEST(BenchChart, DrawsTimesOverTheSizeOnLogarithmicAxes) {
  const std::string svg =
      bench_chart(folder_of("op", {{"op", "matmul"},
                                   {"swept", "n"},
                                   {"cases",
                                    {point("a<b", 10, 1e3, 2e3), point("a<b", 100, 1e4, 2e4),
                                     point("a<b", 1000, 1e5, 0), point("other", 10, 0, 4e3)}}}));
  const auto dots = numbers(svg, kCircle);
  ASSERT_EQ(dots.size(), 3u);  // the measured ones
  EXPECT_EQ(dots[0][0], 96);
  EXPECT_EQ(dots[2][0], 684);
  // Times that grow as the size lie on a straight line.
  EXPECT_NEAR(dots[1][0], 390, 0.1);
  EXPECT_NEAR(dots[0][1] - dots[1][1], dots[1][1] - dots[2][1], 0.2);
  EXPECT_GT(dots[0][1], dots[2][1]);
  EXPECT_EQ(numbers(svg, "(1)\\.00 us</text>").size(), 1u);
  EXPECT_NE(svg.find("a&lt;b"), svg.npos);
  EXPECT_EQ(svg.find("a<b"), svg.npos);
  EXPECT_NE(svg.find("stroke-dasharray"), svg.npos) << "predictions are dashed";
}

TEST(BenchChart, DrawsABarForEachForm) {
  const std::string svg = bench_chart(folder_of(
      "module",
      {{"module", "mlp"}, {"cases", {point("eager", 8, 4e3, 2e3), point("fused", 8, 0, 1e3)}}}));
  const auto bars = numbers(svg, kBar);
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_NEAR(bars[0][1], 340, 0.1);  // the longest
  EXPECT_NEAR(bars[1][1], 85, 0.1);   // a fourth of it
  const auto predicted = numbers(svg, "<line x1=\"([0-9.]+)\" x2=\"[0-9.]+\"");
  ASSERT_EQ(predicted.size(), 1u) << "of the measured bar alone";
  EXPECT_NEAR(predicted[0][0], 230 + 170, 0.1);
  EXPECT_NE(svg.find("fill=\"none\" stroke"), svg.npos) << "the predicted bar is hollow";
}

TEST(BenchChart, DrawsTechniquesByPhaseWithPublishedTimes) {
  json prefill = point("eager", 0, 0, 2e6), decode = point("eager", 0, 0, 1e6);
  prefill["shape"] = {{"b", 8}, {"t", 2048}};
  prefill["phase"] = "prefill";
  prefill["published_ns"] = {{"H200, PyTorch", 1e6}, {"MI210, PyTorch fp16", 4e6}};
  decode["shape"] = {{"b", 8}, {"c", 2048}};
  decode["phase"] = "decode";
  const std::string svg =
      bench_chart(folder_of("study", {{"study", "a"}, {"cases", {decode, prefill}}}));
  EXPECT_LT(svg.find("Prefill of 2048 tokens, fp32"), svg.find("Decode: a token after 2048"));
  const auto bars = numbers(svg, kBar), dots = numbers(svg, kCircle);
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_NEAR(bars[0][1], 170, 0.1);  // half of the published time, which sets the scale
  EXPECT_NEAR(bars[1][1], 340, 0.1);
  ASSERT_EQ(dots.size(), 1u);
  EXPECT_NEAR(dots[0][0], 230 + 340, 0.1);
  EXPECT_NE(svg.find("2.00 ms; MI210: 4.00 ms"), svg.npos);
}

TEST(BenchChart, DrawsOtherQuantitiesThanTime) {
  const std::string svg = bench_chart(folder_of(
      "exhibit",
      {{"exhibit", "initialisation"},
       {"quantity", "first loss"},
       {"values", {{{"name", "small"}, {"value", 7.5}}, {{"name", "large"}, {"value", 900}}}},
       {"cases", json::array()}}));
  const auto bars = numbers(svg, kBar);
  ASSERT_EQ(bars.size(), 2u);
  EXPECT_NEAR(bars[0][1] / bars[1][1], 7.5 / 900, 0.001);
  EXPECT_NE(svg.find("first loss"), svg.npos);
}

TEST(BenchChart, SaysWhatItShows) {
  const std::string svg = bench_chart(
      folder_of("op", {{"op", "matmul"},
                       {"dtype", "fp32"},
                       {"device", "a card"},
                       {"swept", "n"},
                       {"axis", "rows"},
                       {"cases", {point("a", 10, 1e3, 2e3), point("a", 100, 1e4, 2e4)}}}));
  for (const char* text :
       {"matmul, fp32: a card", "rows (n)", "time of a run", "measured", "predicted"})
    EXPECT_NE(svg.find(text), svg.npos) << text;
}

// The memory of attention has a panel of its own, with the ratio to the first form at each point.
TEST(BenchChart, DrawsTheMemoryOfAttention) {
  json standard = point("standard", 512, 4e3, 0), flash = point("flash", 512, 1e3, 0);
  standard["owned_bytes"] = 6000;
  flash["owned_bytes"] = 2000;
  const std::string svg = bench_chart(
      folder_of("attention", {{"attention", "a"}, {"swept", "n"}, {"cases", {standard, flash}}}));
  EXPECT_EQ(numbers(svg, kCircle).size(), 4u);
  EXPECT_NE(svg.find(">memory<"), svg.npos);
  EXPECT_NE(svg.find(">4.0x<"), svg.npos);
  EXPECT_NE(svg.find(">3.0x<"), svg.npos);
}

// A bar for each instrumented step, whose parts add up to its wall time.
TEST(BenchChart, StacksThePartsOfSteps) {
  record::LabRecord lab = lab_record();
  for (record::RunRecord& run : lab.runs)
    for (size_t i = 0; i < run.step.wall_samples_ns.size(); ++i)
      run.step.step_numbers.push_back(static_cast<int64_t>(2 * i));
  const RunFolder folder{
      "a run", {{"performance_summary.json", nlohmann::json::parse(performance_summary(lab))}}};
  const std::string svg = bench_chart(folder);
  const auto parts =
      numbers(svg, "<rect x=\"[0-9.]+\" y=\"[0-9.]+\" width=\"5[0-9.]+\" height=\"([0-9.]+)\"");
  ASSERT_EQ(parts.size(), 8u * 4);
  double sum = 0;
  for (size_t i = 0; i < 4; ++i) sum += parts[i][0];
  EXPECT_NEAR(sum, 280, 0.1);
  EXPECT_NEAR(parts[0][0] / parts[1][0], 2300.0 / 2000, 0.01);  // forward and backward kernels
  for (const char* text :
       {"forward", "backward", "optimizer", "idle and host", "instrumented step"})
    EXPECT_NE(svg.find(text), svg.npos) << text;
}

TEST(BenchChart, PutsPointsUnderTheirRoofs) {
  // 2 FLOP/B: at the bandwidth 20 GFLOP/s, which is 2,000 FLOPs in 100 ns.
  json fast = point("on the roof", 1, 100, 0), deep = point("at the ridge", 2, 0, 1e3);
  deep["flops"] = 100'000;
  deep["bytes"] = 10'000;
  const std::string svg =
      roofline_chart(folder_of("op", {{"op", "matmul"}, {"cases", {fast, deep}}}));
  const auto dots = numbers(svg, kCircle);
  ASSERT_EQ(dots.size(), 2u);
  const auto slanted = numbers(
      svg,
      "<line x1=\"([0-9.]+)\" y1=\"([0-9.]+)\" x2=\"([0-9.]+)\" y2=\"([0-9.]+)\" stroke=\"#333\"");
  ASSERT_EQ(slanted.size(), 1u);
  const double slope = (slanted[0][3] - slanted[0][1]) / (slanted[0][2] - slanted[0][0]);
  EXPECT_NEAR(slanted[0][1] + slope * (dots[0][0] - slanted[0][0]), dots[0][1], 0.3);
  // The ridge point is where the roofs meet.
  EXPECT_NEAR(dots[1][0], slanted[0][2], 0.2);
  EXPECT_NEAR(dots[1][1], slanted[0][3], 0.2);
  EXPECT_NE(svg.find("f32 GEMM 100 GFLOP/s"), svg.npos);
  EXPECT_NE(svg.find("n=2 at the ridge"), svg.npos);
}

TEST(BenchChart, RefusesFoldersWithoutPoints) {
  const RunFolder empty = folder_of("op", {{"op", "matmul"}, {"cases", json::array()}});
  for (const auto& draw : {bench_chart, roofline_chart})
    files::expect_error([&] { draw(empty); }, ExitCode::kUsage, "no point");
  RunFolder bare = folder_of("op", {{"op", "matmul"}, {"cases", {point("a", 1, 1e3, 0)}}});
  bare.files.at("bench.json").erase("roofs");
  files::expect_error([&] { roofline_chart(bare); }, ExitCode::kUsage, "no ceilings");
  const RunFolder run{"run", {{"performance_summary.json", {{"version", 1}}}}};
  EXPECT_THROW(bench_chart(run), Error);
  EXPECT_THROW(roofline_chart(run), Error);
}

TEST(BenchChart, RefusesHostileFolders) {
  for (const char* key : {"median_ns", "flops", "form", "shape"}) {
    json bad = point("a", 1, 1e3, 0);
    bad[key] = json::array({1});
    for (const auto& draw : {bench_chart, roofline_chart}) {
      if (draw == bench_chart && std::string(key) == "flops") continue;  // it does not read them
      files::expect_error(
          [&] {
            draw(folder_of("op", {{"op", "a"}, {"swept", "n"}, {"cases", {bad}}}));
          },
          ExitCode::kBadFile, "expected");
    }
  }
  // Sizes and times at the limits of their types.
  const json far = point("a", INT64_MAX, 1e300, 1e-300);
  const RunFolder folder =
      folder_of("op", {{"op", "a"}, {"swept", "n"}, {"cases", {far, point("a", 1, 1, 1)}}});
  EXPECT_EQ(bench_chart(folder).find("nan"), std::string::npos);
  EXPECT_EQ(roofline_chart(folder).find("nan"), std::string::npos);
}

}  // namespace
}  // namespace ridge::report
