// SPDX-License-Identifier: Apache-2.0
// How many tokens fit into a step that must not take long, by the plan's prediction.
#pragma once

#include <cstdint>
#include <map>

#include "cost/ceilings.h"
#include "serve/session.h"

namespace ridge::serve {

class StepBudget {
 public:
  // Steps of at most `most_tokens` tokens that are predicted to take at most `limit_ns`; 0: no limit,
  // and nothing is predicted. Else plans the graphs that such steps run, which takes a while. Throws a
  // usage Error if there are no ceilings to predict with.
  StepBudget(const Session& session,
             const cost::Ceilings* ceilings,
             int64_t most_tokens,
             double limit_ns);

  // Of a step whose positions are below `reach`: 1 at least, however long that takes.
  int64_t tokens(int64_t reach) const { return by_reach_.lower_bound(reach)->second; }

 private:
  std::map<int64_t, int64_t> by_reach_;  // tokens, by the largest reach that they hold for
};

}  // namespace ridge::serve
