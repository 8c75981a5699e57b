// SPDX-License-Identifier: Apache-2.0
// Times a single op on its test cases and on the sizes it has in the presets. Not a subcommand.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "base/samples.h"
#include "cost/ceilings.h"
#include "cost/cost.h"
#include "cost/predict.h"
#include "graph/op.h"

namespace ridge::bench {

// The distinct calls of `op` in the training steps of the presets tiny and small, at the first and
// the last level, largest first. With `dtype` bf16, the steps are autocast to bf16.
std::vector<Case> preset_cases(const Op& op, DType dtype, const passes::PassTarget& target);

// Calls that training does not make: matmul_group on two weights [8192,1024] of each stored type.
// From 5 bits on, the two together are larger than most caches.
std::vector<Case> stored_cases(const Op& op);

// Returns the case with its castable inputs converted to `dtype`.
Case cast_case(const Case& each, DType dtype);

struct OpTrial {
  std::string name;     // the case's name
  std::string types;    // types of the inputs
  std::string refused;  // the reason why it was not run; empty if it was
  cost::NodeCost cost;  // for composites, the cost of their expansion
  Summary time;         // per call
  double predicted_ns = 0;
  cost::Bound bound = cost::Bound::kNone;
  // The level of the memory hierarchy that holds the operands; empty if the ceilings have no levels.
  std::string level;
  // What bounds the time: "compute", "overhead", or for memory the level, "L2" for instance.
  std::string_view bound_by() const {
    if (bound == cost::Bound::kMemory && !level.empty()) return level;
    return cost::name(bound);
  }
  // Predicted over measured time, up to 1; nullopt for a faster run, whose prediction is no limit.
  std::optional<double> limit_share() const {
    if (!(time.median > 0) || predicted_ns > time.median) return std::nullopt;
    return predicted_ns / time.median;
  }
};

// Uses random data and calls the kernels repeatedly on the same operands. Small operands stay in a
// cache, and the prediction uses the bandwidth of a working set of their size.
OpTrial run_trial(const Op& op,
                  const Case& each,
                  backends::Backend& backend,
                  const cost::Ceilings& ceilings);

}  // namespace ridge::bench
