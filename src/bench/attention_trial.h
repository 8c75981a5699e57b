// SPDX-License-Identifier: Apache-2.0
// Attention alone, in both forms: with the S x S matrix in memory as an eager framework has it, and
// as flash attention. Planned always, run where memory and time allow.
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
  double time_ns = 0;        // of one run, as predicted; 0: any
  double budget_ns = 5e8;    // of the repeats of one form
};

// `ceilings` may be null: then nothing is predicted, and the time is no limit.
record::AttentionRecord try_attention(const AttentionTrial& trial,
                                      const AttentionLimits& limits,
                                      backends::Backend& backend,
                                      const cost::Ceilings* ceilings);

// The longest sequence (of the trial's heads) whose standard attention fits, by the plan.
record::AttentionReach standard_reach(const AttentionTrial& trial,
                                      int64_t memory_bytes,
                                      const plan::Target& target);

}  // namespace ridge::bench
