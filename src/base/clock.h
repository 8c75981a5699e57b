// SPDX-License-Identifier: Apache-2.0
// The stopwatch: a clock that never goes back.
#pragma once

#include <chrono>

namespace ridge {
inline namespace base {

// Nanoseconds since some moment; only differences mean anything.
inline double now_ns() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace base
}  // namespace ridge
