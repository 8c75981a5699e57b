// SPDX-License-Identifier: Apache-2.0
// Interpolates between the measured numbers of tokens.
#include "cost/quantized_time.h"

#include <algorithm>

namespace ridge::cost {
namespace {

// (1 - share) a + share b
QuantizedTime between(const QuantizedTime& a,
                      const QuantizedTime& b,
                      double share,
                      int64_t tokens) {
  auto mix = [&](double QuantizedTime::*ns) { return a.*ns + share * (b.*ns - a.*ns); };
  return {tokens, mix(&QuantizedTime::cached_ns), mix(&QuantizedTime::memory_ns),
          mix(&QuantizedTime::ns_per_in)};
}

}  // namespace

QuantizedTime quantized_time(const QuantizedRates& rates, int64_t tokens) {
  const std::vector<QuantizedTime>& times = rates.times;
  auto above = std::find_if(times.begin(), times.end(),
                            [&](const QuantizedTime& time) { return time.tokens >= tokens; });
  if (above == times.begin()) return *above;
  const bool is_largest = above == times.end();
  const QuantizedTime low = is_largest ? QuantizedTime{} : *(above - 1);
  const QuantizedTime& high = is_largest ? times.back() : *above;
  return between(
      low, high,
      static_cast<double>(tokens - low.tokens) / static_cast<double>(high.tokens - low.tokens),
      tokens);
}

double quantized_gemm_ns(const QuantizedTime& time,
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
