// SPDX-License-Identifier: Apache-2.0
// Times a single op on its test cases and on the sizes it has in the presets.
#pragma once

#include <vector>

#include "backends/backend.h"
#include "bench/graph_trial.h"
#include "cost/ceilings.h"
#include "graph/op.h"
#include "record/bench_record.h"

namespace ridge::bench {

// The distinct calls of `op` in the training steps of the presets tiny and small, at the first and
// the last level, largest first. With `dtype` bf16, the steps are autocast to bf16.
std::vector<Case> preset_cases(const Op& op, DType dtype, const passes::PassTarget& target);

// Calls that training does not make: quantized_matmul on two weights [8192,1024] of each quantized
// type. From 5 bits on, the two together are larger than most caches.
std::vector<Case> quantized_cases(const Op& op);

// Returns the case with its castable inputs converted to `dtype`.
Case cast_case(const Case& each, DType dtype);

// Uses random data and calls the kernels repeatedly on the same operands. Small operands stay in a
// cache, and the prediction uses the bandwidth of a working set of their size.
record::BenchPoint run_trial(const Op& op,
                             const Case& each,
                             backends::Backend& backend,
                             const cost::Ceilings& ceilings);

}  // namespace ridge::bench
