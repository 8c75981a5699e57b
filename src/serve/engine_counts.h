// SPDX-License-Identifier: Apache-2.0
// The counters and histograms of an engine. Plain data; http/ writes them as metrics.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "serve/request.h"
#include "serve/step_cost.h"

namespace ridge::serve {

// Counts values by size. The bounds ascend; the last bucket counts values above all bounds.
struct Histogram {
  explicit Histogram(std::vector<double> upper)
      : bounds(std::move(upper)), counts(bounds.size() + 1, 0) {}
  void observe(double value);

  std::vector<double> bounds;   // inclusive upper bounds
  std::vector<int64_t> counts;  // values of each bucket, not cumulative
  double sum = 0;
  int64_t count = 0;
};

struct EngineCounts {
  EngineCounts();

  int64_t running = 0, waiting = 0;  // current requests
  int64_t slots = 0;
  int64_t blocks_in_use = 0, blocks = 0;  // KV-cache blocks: used by running sequences, and all
  int64_t prompt_tokens = 0;              // tokens of admitted prompts
  int64_t cached_tokens = 0;              // prompt tokens that the prefix cache held
  int64_t generated_tokens = 0;
  int64_t steps = 0;
  int64_t preemptions = 0;
  int64_t internal_errors = 0;  // faults of Ridge; each ended at most one request
  StepCost cost;                // sum over all steps
  // The part of tokens that were computed ahead for requests that had ended. The rest of `cost` is
  // the sum over the requests.
  int64_t discarded_tokens = 0;
  StepCost discarded_cost;
  std::optional<double> mfu, mbu;     // utilization of the last steps; none without ceilings
  int64_t refused = 0;                // requests refused because the queue was full
  std::array<int64_t, 5> finished{};  // ended requests by Finish
  double last_step_s = 0;             // end of the last step, in seconds of now_ns()
  // All histograms count seconds.
  Histogram queue, ttft, tpot, inter_token, end_to_end;
};

}  // namespace ridge::serve
