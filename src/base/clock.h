// SPDX-License-Identifier: Apache-2.0
// The stopwatch, a clock that never goes back; and the time of day.
#pragma once

#include <chrono>
#include <string>

namespace ridge {
inline namespace base {

// Nanoseconds since some moment; only differences mean anything.
inline double now_ns() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string utc_now();  // ISO 8601: "2026-01-31T23:59:59Z"

}  // namespace base
}  // namespace ridge
