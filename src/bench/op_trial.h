// SPDX-License-Identifier: Apache-2.0
// Times one op alone: its test cases, and the sizes that the presets give it. Not a subcommand.
#pragma once

#include <string>
#include <vector>

#include "backends/backend.h"
#include "base/samples.h"
#include "cost/ceilings.h"
#include "cost/cost.h"
#include "cost/predict.h"
#include "graph/op.h"

namespace ridge::bench {

// The calls of `op` that the steps of the presets tiny and small make, at the first and the last
// level, largest first, each once. With `dtype` bf16 the steps are cast.
std::vector<Case> preset_cases(const Op& op, DType dtype, const passes::PassTarget& target);

// Calls that training makes none of: matmul_group on two weights [8192,1024] of each stored type,
// larger together than most caches from 5 bits on.
std::vector<Case> stored_cases(const Op& op);

// The case with its castable inputs in another type.
Case cast_case(const Case& each, DType dtype);

struct OpTrial {
  std::string name;     // of the case
  std::string types;    // of its inputs
  std::string refused;  // why it was not run; empty where it was
  cost::NodeCost cost;  // composites: of what they expand to
  Summary time;         // of one call
  double predicted_ns = 0;
  cost::Bound bound = cost::Bound::kNone;
  // How much of the limit that the ceilings set was reached; 0 where unknown.
  double limit_share() const { return time.median > 0 ? predicted_ns / time.median : 0; }
};

// Random data, kernels called again and again on the same operands: small ones stay in a cache, and
// the prediction knows it.
OpTrial run_trial(const Op& op,
                  const Case& each,
                  backends::Backend& backend,
                  const cost::Ceilings& ceilings);

}  // namespace ridge::bench
