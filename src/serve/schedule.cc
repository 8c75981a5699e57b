// SPDX-License-Identifier: Apache-2.0
// First come, first served, with decoding sequences always aboard.
#include "serve/schedule.h"

#include <algorithm>

namespace ridge::serve {

std::vector<int64_t> choose_step(std::span<const Running> running, const StepLimits& limits) {
  std::vector<int64_t> ids(running.size(), 0);
  int64_t decoding = 0;
  for (size_t i = 0; i < running.size(); ++i)
    if (running[i].decodes) decoding += ids[i] = 1;
  const int64_t most = decoding > 0 ? std::min(limits.step_tokens, limits.chunk) : limits.chunk;
  int64_t left = std::max<int64_t>(most - decoding, 1);
  for (size_t i = 0; i < running.size() && left > 0; ++i) {
    if (running[i].decodes) continue;
    ids[i] = std::min({running[i].pending, left, limits.chunk});
    left -= ids[i];
  }
  return ids;
}

}  // namespace ridge::serve
