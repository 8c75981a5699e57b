// SPDX-License-Identifier: Apache-2.0
// Medians and their confidence intervals by order statistics.
#include "base/samples.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ridge {
inline namespace base {
namespace {

constexpr double kConfidence = 0.95;

// P(Binomial(n, 1/2) = k), in logarithms because 2^-n alone would underflow for many samples.
double binomial_half(int64_t n, int64_t k) {
  auto log_factorial = [](int64_t m) { return std::lgamma(static_cast<double>(m) + 1); };
  return std::exp(log_factorial(n) - log_factorial(k) - log_factorial(n - k) -
                  static_cast<double>(n) * std::log(2.0));
}

double middle(const std::vector<double>& sorted) {
  size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

}  // namespace

Summary summarize(std::span<const double> samples) {
  Summary summary;
  if (samples.empty()) return summary;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  int64_t n = static_cast<int64_t>(sorted.size());
  // k - 1 samples are outside the interval at each end.
  int64_t k = 1;
  double outside = binomial_half(n, 0);  // P(Binomial < k)
  // Ends at the middle at the latest, where half of the probability or more is outside at each end.
  for (;; ++k) {
    double more = outside + binomial_half(n, k);
    if (1 - 2 * more < kConfidence) break;
    outside = more;
  }
  summary.count = n;
  summary.median = middle(sorted);
  summary.low = sorted[static_cast<size_t>(k - 1)];
  summary.high = sorted[static_cast<size_t>(n - k)];
  summary.coverage = std::max(0.0, 1 - 2 * outside);
  return summary;
}

double median(std::span<const double> samples) {
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return middle(sorted);
}

bool overlap(const Summary& a, const Summary& b) { return a.low <= b.high && b.low <= a.high; }

}  // namespace base
}  // namespace ridge
