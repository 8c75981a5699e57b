// SPDX-License-Identifier: Apache-2.0
// The demo gemm-scaling: the rate of square GEMMs by their size, and the cliffs.
#include <fmt/format.h>

#include <utility>

#include "base/units.h"
#include "courses/demos/demos.h"

namespace ridge::courses {
namespace {

// Sizes, and the milliseconds of the lecture.
constexpr std::pair<int64_t, double> kLectureMs[] = {{1024, 0.22},
                                                     {2048, 1.28},
                                                     {4096, 9.32},
                                                     {8192, 59.71},
                                                     {16384, 462.52}};

void run(Fixture& fixture) {
  for (int64_t n :
       {64, 128, 256, 257, 512, 768, 1024, 1025, 1536, 1792, 1793, 2048, 4096, 8192, 16384})
    fixture.add("library", {{"n", n}}, product_graph(n, n, n));
  for (record::BenchPoint& point : fixture.record.points)
    for (const auto& [n, ms] : kLectureMs)
      if (point.extents[0].second == n) point.published_ns[kLectureMachine] = 1e6 * ms;
  fixture.record.fits = record::fit_laws(fixture.record.points, "n");
  fixture.record.cliffs = record::find_cliffs(fixture.record.points, "n");
  const record::BenchPoint *small = fixture.find("library", 64),
                           *large = fixture.find("library", 1024);
  if (small == nullptr || large == nullptr) return;
  auto rate = [](const record::BenchPoint& p, double ns) {
    return format_rate(static_cast<double>(p.work.flops) / ns * 1e9, "FLOP/s");
  };
  fixture.record.prediction =
      fmt::format("{} at 64 and {} at 1024.", rate(*small, small->predicted_ns),
                  rate(*large, large->predicted_ns));
  fixture.record.finding =
      fmt::format("{} at 64 and {} at 1024.", rate(*small, small->ns()), rate(*large, large->ns()));
}

}  // namespace

Demo gemm_scaling_demo() {
  return {
      "gemm-scaling",
      "A square GEMM's FLOPs grow with n^3 and its bytes with n^2, so it becomes compute-bound.",
      {"Intensity is n / 6 FLOPs a byte in fp32: from the ridge point on, memory does not matter.",
       "Small GEMMs pay for the call and for tiles that are not full.",
       "Rows whose length is a power of two collide in the caches, one column more does not.",
       "A law fitted to small sizes misses all of this; measure the sizes that you use."},
      "n: rows and columns",
      run};
}

}  // namespace ridge::courses
