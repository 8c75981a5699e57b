// SPDX-License-Identifier: Apache-2.0
// The share of a frequency that stays unscaled is linear in the frequency, clamped to [0, 1]. Two
// points in between determine the line.
#include "models/rope_factors.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ridge::models {
namespace {

// Rotations per position of frequency i of `half`.
double turns(size_t i, size_t half, double theta) {
  return std::pow(theta, -static_cast<double>(i) / static_cast<double>(half)) /
         (2 * std::numbers::pi);
}

bool gives(const RopeScaling& scaling, std::span<const float> factors, double theta) {
  std::vector<float> made = rope_factors(scaling, static_cast<int64_t>(2 * factors.size()), theta);
  for (size_t i = 0; i < factors.size(); ++i)
    if (!(std::abs(factors[i] - made[i]) <= 1e-3f * made[i])) return false;
  return true;
}

double near_integer(double value) {
  double rounded = std::round(value);
  return std::abs(value - rounded) <= 1e-3 * std::abs(value) ? rounded : value;
}

RopeScaling fit(std::span<const float> factors, double theta, RopeScaling s) {
  struct Point {
    double turns, share;
  };
  std::vector<Point> between;
  for (size_t i = 0; i < factors.size(); ++i) {
    double share = (1 / static_cast<double>(factors[i]) - 1 / s.factor) / (1 - 1 / s.factor);
    if (share > 1e-4 && share < 1 - 1e-4)
      between.push_back({turns(i, factors.size(), theta), share});
  }
  if (between.size() == 1)
    s.original_context = (between[0].share * (s.high_frequency_factor - 1) + 1) / between[0].turns;
  if (between.size() > 1) {
    const Point &a = between.front(), &b = between.back();
    double slope = (a.share - b.share) / (a.turns - b.turns), cut = slope * a.turns - a.share;
    s.high_frequency_factor = near_integer(1 + 1 / cut);
    s.original_context = slope * (s.high_frequency_factor - 1);
  }
  s.original_context = near_integer(s.original_context);
  return s;
}

}  // namespace

std::vector<float> rope_factors(const RopeScaling& s, int64_t head_size, double theta) {
  std::vector<float> factors(static_cast<size_t>(head_size / 2));
  for (size_t i = 0; i < factors.size(); ++i) {
    double kept = (s.original_context * turns(i, factors.size(), theta) - s.low_frequency_factor) /
                  (s.high_frequency_factor - s.low_frequency_factor);
    kept = std::clamp(kept, 0.0, 1.0);
    factors[i] = static_cast<float>(1 / ((1 - kept) / s.factor + kept));
  }
  return factors;
}

std::optional<RopeScaling> scaling_of_factors(std::span<const float> factors, double theta) {
  double largest = 1;
  for (float factor : factors) {
    if (!(factor >= 1) || !std::isfinite(factor)) return std::nullopt;
    largest = std::max(largest, static_cast<double>(factor));
  }
  if (largest == 1) return RopeScaling{};
  const RopeScaling published{"llama3", largest, 8192, 1, 4};
  if (gives(published, factors, theta)) return published;
  RopeScaling fitted = fit(factors, theta, published);
  bool is_sane = std::isfinite(fitted.original_context) && fitted.original_context > 0 &&
                 std::isfinite(fitted.high_frequency_factor) && fitted.high_frequency_factor > 1;
  if (is_sane && gives(fitted, factors, theta)) return fitted;
  return std::nullopt;
}

}  // namespace ridge::models
