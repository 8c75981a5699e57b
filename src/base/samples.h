// SPDX-License-Identifier: Apache-2.0
// Repeated measurements of one quantity: their median and an interval that holds the true median
// with 95% probability. This is not a hypothesis test: two results whose intervals overlap count as
// equal.
#pragma once

#include <cstdint>
#include <span>

namespace ridge {
inline namespace base {

// The interval is [k-th smallest, k-th largest] of the samples. It holds the median of the
// distribution with probability 1 - 2 P(Binomial(n, 1/2) < k), whatever the distribution is; k is
// the largest that keeps this at 95% or more. Fewer than 6 samples cannot reach 95%: the interval
// is then [smallest, largest] and `coverage` its actual probability.
struct Summary {
  int64_t count = 0;
  double median = 0, low = 0, high = 0, coverage = 0;
  // Half the interval's width as a share of the median: the "+-" of a table.
  double spread() const { return median > 0 ? (high - low) / (2 * median) : 0; }
};

// All zeros for no samples.
Summary summarize(std::span<const double> samples);

// The median alone; 0 for no samples.
double median(std::span<const double> samples);

// Whether the difference between two medians is within the noise: their intervals overlap.
bool overlap(const Summary& a, const Summary& b);

}  // namespace base
}  // namespace ridge
