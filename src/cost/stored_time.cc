// SPDX-License-Identifier: Apache-2.0
// Interpolates between the measured numbers of tokens.
#include "cost/stored_time.h"

#include <algorithm>

namespace ridge::cost {
namespace {

// (1 - share) a + share b
StoredTime between(const StoredTime& a, const StoredTime& b, double share, int64_t tokens) {
  auto mix = [&](double StoredTime::*ns) { return a.*ns + share * (b.*ns - a.*ns); };
  return {tokens, mix(&StoredTime::cached_ns), mix(&StoredTime::memory_ns),
          mix(&StoredTime::ns_per_in)};
}

}  // namespace

StoredTime stored_time(const StoredRates& rates, int64_t tokens) {
  const std::vector<StoredTime>& times = rates.times;
  auto above = std::find_if(times.begin(), times.end(),
                            [&](const StoredTime& time) { return time.tokens >= tokens; });
  if (above == times.begin()) return *above;
  const bool is_largest = above == times.end();
  const StoredTime low = is_largest ? StoredTime{} : *(above - 1);
  const StoredTime& high = is_largest ? times.back() : *above;
  return between(
      low, high,
      static_cast<double>(tokens - low.tokens) / static_cast<double>(high.tokens - low.tokens),
      tokens);
}

double stored_product_ns(const StoredTime& time,
                         double memory_share,
                         int64_t out,
                         int64_t in,
                         bool overlaps) {
  const double ns_per_weight =
      overlaps ? std::max(time.cached_ns, memory_share * time.memory_ns)
               : time.cached_ns + memory_share * std::max(0.0, time.memory_ns - time.cached_ns);
  return static_cast<double>(in) * (static_cast<double>(out) * ns_per_weight + time.ns_per_in);
}

}  // namespace ridge::cost
