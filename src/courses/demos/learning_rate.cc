// SPDX-License-Identifier: Apache-2.0
// The demo learning-rate: a linear warm-up, then a half of a cosine.
#include <fmt/format.h>

#include "courses/demos/demos.h"
#include "train/optimizer.h"

namespace ridge::courses {
namespace {

constexpr int64_t kSteps = 100, kWarmup = 10;

void run(Fixture& fixture) {
  train::OptimizerOptions options;
  options.warmup_steps = kWarmup;
  options.decay_steps = kSteps;
  options.minimum_rate = options.learning_rate / 10;
  fixture.record.quantity = "rate x 1e-4";
  double largest = 0;
  int64_t at = 0;
  for (int64_t step = 1; step <= kSteps; ++step) {
    const double rate = 1e4 * train::learning_rate(options, step);
    if (rate > largest) at = step;
    largest = std::max(largest, rate);
    if (step == 1 || step % 5 == 0)
      fixture.record.values.emplace_back(fmt::format("step {}", step), rate);
  }
  fixture.record.prediction = fmt::format(
      "the rate rises to 3e-4 in {} steps and falls to a tenth of it at step {}.", kWarmup, kSteps);
  fixture.record.finding =
      fmt::format("the rate is largest at step {}, {:.0f}e-4, and {:.1f}e-4 at step {}.", at,
                  largest, fixture.record.values.back().second, kSteps);
}

}  // namespace

Demo learning_rate_demo() {
  return {"learning-rate",
          "The rate of a training rises in a line, then falls as half of a cosine.",
          {"AdamW's first moments are means of few gradients, so the first steps are small ones.",
           "The cosine falls slowly at first, so most steps have nearly the largest rate.",
           "At the end small steps settle what large ones left noisy.",
           "ridge train has the same schedule: --lr-warmup, --schedule cosine, --min-lr."},
          "",
          run};
}

}  // namespace ridge::courses
