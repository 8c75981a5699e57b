// SPDX-License-Identifier: Apache-2.0
// The closed forms.
#include "cost/resource_plan.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::cost {

int64_t palm_flops_per_token(const PalmExtents& e) {
  return 6 * e.parameters + 12 * e.layers * e.heads * e.head_size * e.sequence;
}

double training_days(double flops_per_token,
                     double tokens,
                     double devices,
                     double peak_flops_per_s,
                     double mfu) {
  constexpr double kSecondsPerDay = 86400;
  double rate = devices * peak_flops_per_s * mfu;
  return rate > 0 ? flops_per_token * tokens / rate / kSecondsPerDay : 0;
}

int64_t largest_model(int64_t memory_bytes, const BytesPerParameter& bytes) {
  return static_cast<int64_t>(static_cast<double>(memory_bytes) / bytes.total());
}

int64_t largest_fitting(int64_t memory_bytes,
                        int64_t most,
                        const std::function<int64_t(int64_t)>& bytes) {
  auto fits = [&](int64_t n) {
    try {
      return bytes(n) <= memory_bytes;
    } catch (const Error&) {
      return false;
    }
  };
  int64_t low = 0, high = 1;  // low fits, high is not known to
  while (high <= most && fits(high)) {
    low = high;
    high *= 2;
  }
  high = std::min(high, most + 1);
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace ridge::cost
