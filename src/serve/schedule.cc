// SPDX-License-Identifier: Apache-2.0
// Schedules by priority, then arrival; decoding sequences take part in every step.
#include "serve/schedule.h"

#include <algorithm>

namespace ridge::serve {

std::vector<int64_t> choose_step(std::span<const Running> running, const StepLimits& limits) {
  std::vector<int64_t> ids(running.size(), 0);
  int64_t decoding = 0;
  for (size_t i = 0; i < running.size(); ++i)
    if (running[i].decodes) decoding += ids[i] = 1;
  const int64_t most =
      decoding > 0 ? std::min(limits.max_batched_tokens, limits.chunk) : limits.chunk;
  int64_t left = std::max<int64_t>(most - decoding, 1);
  for (size_t i = 0; i < running.size() && left > 0; ++i) {
    if (running[i].decodes) continue;
    ids[i] = std::min({running[i].pending, left, limits.chunk});
    left -= ids[i];
  }
  return ids;
}

std::optional<int64_t> count_preempted(std::span<const BlockUse> running,
                                       int64_t wanted,
                                       int64_t available) {
  for (const BlockUse& each : running) wanted += each.wanted;
  const int64_t all = std::ssize(running);
  int64_t kept = all;
  for (; wanted > available && kept > 0; --kept) {
    const BlockUse& last = running[static_cast<size_t>(kept - 1)];
    if (!last.yields) return std::nullopt;
    wanted -= last.wanted;
    available += last.owned;
  }
  return all - kept;
}

}  // namespace ridge::serve
