// SPDX-License-Identifier: Apache-2.0
// Searches for the most tokens whose predicted time is within the limit, for each padded context.
#include "serve/step_budget.h"

#include "base/error.h"
#include "cost/predict.h"

namespace ridge::serve {
namespace {

// Returns the most tokens from 1 to `most` whose time is within the limit. Times grow with tokens.
int64_t most_within(const Session& session,
                    const cost::Ceilings& ceilings,
                    int64_t reach,
                    int64_t most,
                    double limit_ns) {
  int64_t fits = 1, beyond = most + 1;
  while (beyond - fits > 1) {
    const int64_t tokens = fits + (beyond - fits) / 2;
    const bool is_within =
        cost::predict_run_ns(*session.runner().buckets().planned_run(tokens, reach), ceilings) <=
        limit_ns;
    (is_within ? fits : beyond) = tokens;
  }
  return fits;
}

}  // namespace

int64_t suitable_step_tokens(const Session& session, const cost::Ceilings* ceilings) {
  if (!session.runner().is_on_device()) return 128;
  constexpr int64_t kMost = 2048, kUsual = 1024, kLeast = 256;
  constexpr double kLimitNs = 75e6;
  if (ceilings == nullptr) return kUsual;
  const int64_t reach = session.options().capacity / 2;
  int64_t tokens = kMost;
  while (tokens > kLeast &&
         cost::predict_run_ns(*session.runner().buckets().planned_run(tokens, reach), *ceilings) >
             kLimitNs)
    tokens /= 2;
  return tokens;
}

StepBudget::StepBudget(const Session& session,
                       const cost::Ceilings* ceilings,
                       int64_t most_tokens,
                       double limit_ns) {
  by_reach_[INT64_MAX] = most_tokens;
  if (limit_ns == 0) return;
  if (ceilings == nullptr)
    throw usage_error(
        "[max-step-ms] expected measured ceilings to predict steps with, found none: run `ridge machine` once");
  const int64_t most = std::min(most_tokens, session.most_ids()),
                capacity = session.options().capacity;
  for (int64_t reach = 0; reach < capacity;) {
    reach = session.runner().buckets().planned_context(reach + 1);
    by_reach_[reach] = most_within(session, *ceilings, reach, most, limit_ns);
  }
}

}  // namespace ridge::serve
