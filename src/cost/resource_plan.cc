// SPDX-License-Identifier: Apache-2.0
// Implements the closed forms.
#include "cost/resource_plan.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace ridge::cost {
namespace {

std::optional<int64_t> bytes_or_nothing(const std::function<int64_t(int64_t)>& bytes, int64_t n) {
  try {
    return bytes(n);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

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
  // Memory is almost linear in n, so the first guesses follow the line through the last two points;
  // after eight guesses, all bisect.
  constexpr int kLineGuesses = 8;
  int64_t low = 0, high = most + 1;  // low fits, high does not
  double low_bytes = 0, slope = 0;   // slope 0: no line
  for (int guess = 0; high - low > 1; ++guess) {
    int64_t step = (high - low) / 2;
    if (guess == 0) {
      step = 1;
    } else if (guess < kLineGuesses && slope > 0) {
      const double steps = (static_cast<double>(memory_bytes) - low_bytes) / slope;
      step = static_cast<int64_t>(std::clamp(steps, 1.0, static_cast<double>(high - low - 1)));
    }
    std::optional<int64_t> next = bytes_or_nothing(bytes, low + step);
    if (next && *next <= memory_bytes) {
      slope = (static_cast<double>(*next) - low_bytes) / static_cast<double>(step);
      low += step;
      low_bytes = static_cast<double>(*next);
    } else {
      high = low + step;
      slope = next ? (static_cast<double>(*next) - low_bytes) / static_cast<double>(step) : 0;
    }
  }
  return low;
}

}  // namespace ridge::cost
