// SPDX-License-Identifier: Apache-2.0
// The searches of k_quants.h share these: how densely they search, and scales of half precision.
// Internal to files/.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/bf16.h"

namespace ridge::files {

// The grid widths tried go from one level narrower to one level wider than the range, in steps of a
// quarter of a level. Half that step takes 1.5 times as long and lowers the error by at most 0.1%
// (Q2_K).
inline constexpr int kWidthSteps = 4;
inline constexpr float kWidthStep = 0.25f;
// Iterations that alternate between choosing the sub-blocks' scales and solving for the
// super-block's scale. The second lowers the error by up to 0.2%, the third by up to 0.1%.
inline constexpr int kSuperRounds = 3;
// A sub-block with a smaller range is constant within the precision of half scales.
inline constexpr float kTinyRange = 1e-30f;
// Adding and subtracting 1.5 x 2^23 rounds a small float to the nearest integer.
inline constexpr float kRounder = 12582912.0f;

inline float inverse(float value) { return value != 0 ? 1 / value : 0; }

inline float as_half(double value) { return f16_to_float(float_to_f16(static_cast<float>(value))); }

// The nearest half that is not smaller in magnitude, so that the largest sub-block's scale stays
// representable. This matters for subnormal halves, such as the scales of weights near 0.001.
inline float half_beyond(float value) {
  const uint16_t bits = float_to_f16(value);
  const float half = f16_to_float(bits);
  return std::fabs(half) < std::fabs(value) ? f16_to_float(static_cast<uint16_t>(bits + 1)) : half;
}

// The fit returned if the scale is out of the range of half precision: its scale is infinity.
template <typename Fit>
Fit unreachable_scale() {
  constexpr uint16_t kHalfInfinity = 0x7c00;
  Fit fit{};
  fit.scale = kHalfInfinity;
  return fit;
}

}  // namespace ridge::files
