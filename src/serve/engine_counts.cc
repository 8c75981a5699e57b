// SPDX-License-Identifier: Apache-2.0
// The buckets of the engine's histograms: those of vLLM, so that dashboards carry over.
#include "serve/engine_counts.h"

#include <algorithm>

namespace ridge::serve {
namespace {

const std::vector<double> kFirstToken{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                      0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                      20,    40,    80,   160,  640,  2560};
const std::vector<double> kPerToken{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                    0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const std::vector<double> kWhole{0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};

}  // namespace

void Histogram::observe(double value) {
  ++counts[static_cast<size_t>(std::ranges::lower_bound(bounds, value) - bounds.begin())];
  sum += value;
  ++count;
}

EngineCounts::EngineCounts()
    : queue(kWhole),
      ttft(kFirstToken),
      tpot(kPerToken),
      inter_token(kPerToken),
      end_to_end(kWhole) {}

}  // namespace ridge::serve
