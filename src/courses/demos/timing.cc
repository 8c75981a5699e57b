// SPDX-License-Identifier: Apache-2.0
// The demo timing: the same GEMM, timed in four ways, gives four answers.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/units.h"
#include "courses/demos/demos.h"
#include "runtime/program.h"

namespace ridge::courses {
namespace {

Summary one(double ns) { return {1, ns, ns, ns, 0}; }

void run(Fixture& fixture) {
  constexpr int64_t kSize = 256;
  constexpr size_t kRuns = 200, kLeast = 8;
  const TrialGraph product = product_graph(kSize, kSize, kSize);
  backends::Backend& device = fixture.backend();
  const double predicted = plan_trial(product, {}, device, &fixture.ceilings()).predicted_ns;

  runtime::Store store(device);
  runtime::Program program(device, store);
  program.add("product", prepare(product, {}, device).graph);
  program.bind();
  fill_operand(store, "x", {});
  fill_operand(store, "weight", {});
  std::vector<double> each;
  while (!fixture.is_stopped() &&
         (each.size() < kLeast || (each.size() < kRuns && fixture.left_ns() > 0))) {
    const double begin = now_ns();
    program.run(0);
    program.wait();
    each.push_back(now_ns() - begin);
  }
  if (fixture.is_stopped()) return;
  // Launches alone: what a clock sees that does not wait for the device.
  const double begin = now_ns();
  program.run(0);
  const double launched = now_ns() - begin;
  program.wait();

  const std::vector<double> warm(each.begin() + 1, each.end());
  const double mean =
      std::accumulate(each.begin(), each.end(), 0.0) / static_cast<double>(each.size());
  const record::Extents size{{"n", kSize}};
  fixture.add_time("first call", size, one(each.front()));
  fixture.add_time("mean of all calls", size, one(mean));
  fixture.add_time("median of warm calls", size, summarize(warm));
  fixture.add_time("fastest call", size, one(*std::min_element(warm.begin(), warm.end())));
  fixture.add_time("without waiting", size, one(launched));
  for (record::BenchPoint& point : fixture.record.points) {
    point.predicted_ns = predicted;
    point.work = products(kSize * kSize * kSize);
    point.planned_bytes = 3 * 4 * kSize * kSize;
  }
  fixture.record.prediction =
      fmt::format("{} for each of {} calls.", format_ns(predicted), each.size());
  fixture.record.finding =
      fmt::format("the first call took {}, the mean of all is {}, the median of the warm ones {}.",
                  format_ns(each.front()), format_ns(mean), format_ns(summarize(warm).median));
}

}  // namespace

Demo timing_demo() {
  return {
      "timing",
      "The first call, the mean, the median and the fastest call of one GEMM are four different numbers.",
      {"The first call loads code, touches pages and fills caches, so it is no sample of what follows.",
       "A mean keeps every disturbance of the machine; a median ignores up to half of them.",
       "The fastest call hides the variation that a user meets, so an interval stands next to the median.",
       "On a device that works asynchronously, a clock that does not wait measures the launch alone."},
      "",
      run};
}

}  // namespace ridge::courses
