// SPDX-License-Identifier: Apache-2.0
// Limits the tokens of a step so that its predicted time stays within a limit.
#pragma once

#include <cstdint>
#include <map>

#include "cost/ceilings.h"
#include "serve/session.h"

namespace ridge::serve {

// Returns the tokens of a step in which a sequence decodes that suit the session: 128 on a CPU,
// where each token takes its time, and on a device up to 2,048 that it computes in 75 ms by
// prediction, or 1,024 without ceilings.
int64_t suitable_step_tokens(const Session& session, const cost::Ceilings* ceilings);

class StepBudget {
 public:
  // Allows at most `most_tokens` tokens and a predicted time of at most `limit_ns`. With a limit,
  // it plans the graphs of such steps, which takes a while. 0 means no limit and predicts nothing.
  // Throws a usage Error for a limit without ceilings.
  StepBudget(const Session& session,
             const cost::Ceilings* ceilings,
             int64_t most_tokens,
             double limit_ns);

  // Returns the most tokens, at least 1, of a step at positions below `reach`.
  int64_t tokens(int64_t reach) const { return by_reach_.lower_bound(reach)->second; }

 private:
  std::map<int64_t, int64_t> by_reach_;  // largest reach -> tokens
};

}  // namespace ridge::serve
