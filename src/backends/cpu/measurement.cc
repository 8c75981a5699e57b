// SPDX-License-Identifier: Apache-2.0
// The stopwatch of the ceilings.
#include "backends/cpu/measurement.h"

#include <omp.h>

#include <algorithm>
#include <cstring>

#include "backends/random_block.h"
#include "base/clock.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

// A sample this long makes the clock's 50 ns and its jitter one in a thousand.
constexpr double kSampleNs = 150e3;
constexpr int64_t kMostRepeats = 1 << 20;
// Experiments with longer samples are as steady with half as many.
constexpr double kLongNs = 20e6;
constexpr int kLeastRounds = 3;
constexpr int kMostRounds = 15;

double time_ns(const std::function<void()>& run, int64_t repeats) {
  double begin = now_ns();
  for (int64_t i = 0; i < repeats; ++i) run();
  return now_ns() - begin;
}

}  // namespace

void Timing::sample() {
  if (repeats_ == 0) {
    run_();
    repeats_ = 1;
    while (!prepare_ && repeats_ < kMostRepeats && time_ns(run_, repeats_) < kSampleNs)
      repeats_ *= 2;
  }
  double preparing_ns = prepare_ ? time_ns(prepare_, 1) : 0;
  double ns = time_ns(run_, repeats_);
  spent_ns_ = preparing_ns + ns;
  samples_.push_back(ns / static_cast<double>(repeats_));
}

double Timing::quantile_ns(double share) const {
  RIDGE_CHECK(!samples_.empty(), "nothing was measured");
  std::vector<double> sorted = samples_;
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size()))];
}

void Rounds::run(double budget_ns, const std::function<void(double)>& progress) {
  double begin = now_ns();
  for (int round = 0; round < kMostRounds; ++round) {
    double spent = now_ns() - begin;
    if (round >= kLeastRounds && spent > budget_ns) break;
    size_t done = 0;
    for (Timing& timing : timings_) {
      bool sits_out = round % 2 == 1 && timing.cost_ns() > kLongNs;
      if (!sits_out) timing.sample();
      // Without a known number of rounds, the share of time spent is the better guess of the two
      // late in the run.
      double by_round =
          (round + static_cast<double>(++done) / static_cast<double>(timings_.size())) /
          kMostRounds;
      if (progress) progress(std::min(1.0, std::max(by_round, (now_ns() - begin) / budget_ns)));
    }
  }
}

Pool::Pool(DType dtype, int64_t bytes)
    : inputs_(bytes, "random operands"), results_(bytes, "results") {
  // Drawing them all would take seconds; repeats that are no cache's size apart do as well.
  constexpr int64_t kDrawn = 1'000'003;
  int64_t width = storage_bytes(dtype, 1), elements = bytes / width;
  const std::vector<std::byte> drawn = random_block(dtype, kDrawn * width, 1);
#pragma omp parallel for
  for (int64_t begin = 0; begin < elements; begin += kDrawn) {
    size_t count = static_cast<size_t>(std::min(kDrawn, elements - begin) * width);
    std::memcpy(inputs_.data() + begin * width, drawn.data(), count);
    std::memcpy(results_.data() + begin * width, drawn.data(), count);
  }
}

}  // namespace ridge::backends::cpu
