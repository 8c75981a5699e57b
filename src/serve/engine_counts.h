// SPDX-License-Identifier: Apache-2.0
// What an engine counts and times while it serves. Plain data; http/ writes it as metrics.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "serve/request.h"
#include "serve/step_cost.h"

namespace ridge::serve {

// Observations by size. The bounds are ascending; the last bucket, beyond all bounds, has none.
struct Histogram {
  explicit Histogram(std::vector<double> upper)
      : bounds(std::move(upper)), counts(bounds.size() + 1, 0) {}
  void observe(double value);

  std::vector<double> bounds;   // a bucket counts values up to and including its bound
  std::vector<int64_t> counts;  // per bucket, not cumulative
  double sum = 0;
  int64_t count = 0;
};

struct EngineCounts {
  EngineCounts();

  int64_t running = 0, waiting = 0;  // requests now
  int64_t slots = 0;
  int64_t blocks_in_use = 0, blocks = 0;  // of the KV cache: by running sequences, and all
  int64_t prompt_tokens = 0;              // of admitted requests
  int64_t cached_tokens = 0;              // of these, those that were not computed again
  int64_t generated_tokens = 0;
  int64_t steps = 0;
  int64_t preemptions = 0;
  int64_t internal_errors = 0;  // faults of Ridge that ended one request; none are expected
  StepCost cost;                      // of all steps
  std::optional<double> mfu, mbu;     // of the last ones; none without ceilings
  int64_t refused = 0;                // because the queue was full
  std::array<int64_t, 5> finished{};  // by Finish
  double last_step_s = 0;             // when the last step ended, in seconds of now_ns()
  // In seconds.
  Histogram queue, ttft, tpot, inter_token, end_to_end;
};

}  // namespace ridge::serve
