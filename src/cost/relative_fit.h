// SPDX-License-Identifier: Apache-2.0
// Fits the coefficients of a linear law to measured times. Not a law itself: product_time.h and the
// calibration of a backend have those.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace ridge::cost {

// A measured time and the terms of the law ns = sum over t of coefficient[t] terms[t].
template <size_t kTerms>
struct TimedTerms {
  std::array<double, kTerms> terms;
  double ns = 0;
};

// Returns the coefficients >= 0 that minimize the sum over samples of (law / ns - 1)^2. Coordinate
// descent on the normal equations: sets each coefficient in turn to its best value with the others
// fixed. A few terms converge within some hundreds of rounds.
template <size_t kTerms>
std::array<double, kTerms> fit_relative(std::vector<TimedTerms<kTerms>> samples) {
  constexpr int kRounds = 4000;
  std::array<double, kTerms> coefficients{}, norms{};
  for (TimedTerms<kTerms>& sample : samples)
    for (size_t t = 0; t < kTerms; ++t) {
      sample.terms[t] /= sample.ns;
      norms[t] += sample.terms[t] * sample.terms[t];
    }
  std::vector<double> left(samples.size(), 1.0);  // 1 - law / ns
  for (int round = 0; round < kRounds; ++round)
    for (size_t t = 0; t < kTerms; ++t) {
      if (norms[t] == 0) continue;
      double slope = 0;
      for (size_t i = 0; i < samples.size(); ++i) slope += samples[i].terms[t] * left[i];
      const double next = std::max(0.0, coefficients[t] + slope / norms[t]);
      const double change = next - coefficients[t];
      coefficients[t] = next;
      for (size_t i = 0; i < samples.size(); ++i) left[i] -= change * samples[i].terms[t];
    }
  return coefficients;
}

}  // namespace ridge::cost
