// SPDX-License-Identifier: Apache-2.0
// Checks values for infinities and NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace ridge {
inline namespace base {

inline bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

}  // namespace base
}  // namespace ridge
