// SPDX-License-Identifier: Apache-2.0
// The range of the loss scale.
#pragma once

namespace ridge::ops {

inline constexpr double kLeastLossScale = 1;
inline constexpr double kMostLossScale = 0x1p24;

}  // namespace ridge::ops
