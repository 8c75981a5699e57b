// SPDX-License-Identifier: Apache-2.0
// Compares attention alone in two implementations: with the S x S matrix in memory, as in an eager
// framework, and as flash attention. Both are always planned, and run if memory and time allow.
#pragma once

#include <cstdint>

#include "backends/backend.h"
#include "cost/ceilings.h"
#include "record/inference_record.h"

namespace ridge::bench {

struct AttentionTrial {
  int64_t heads = 1;
  int64_t head_size = 64;
  int64_t sequence = 256;
};
struct AttentionLimits {
  int64_t memory_bytes = 0;  // 0: nothing is run
  double time_ns = 0;        // limit for one run's predicted time; 0: no limit
  double budget_ns = 5e8;    // for the repeats of one implementation
};

// `ceilings` may be null; then nothing is predicted and the time limit does not apply.
record::AttentionRecord try_attention(const AttentionTrial& trial,
                                      const AttentionLimits& limits,
                                      backends::Backend& backend,
                                      const cost::Ceilings* ceilings);

// The longest sequence, with the trial's heads, whose standard attention fits into `memory_bytes`
// by planned memory.
record::AttentionReach standard_reach(const AttentionTrial& trial,
                                      int64_t memory_bytes,
                                      const passes::PassTarget& target);

}  // namespace ridge::bench
