// SPDX-License-Identifier: Apache-2.0
// A monotonic clock for measuring durations, and the time of day as text.
#pragma once

#include <chrono>
#include <string>

namespace ridge {
inline namespace base {

// Nanoseconds since an unspecified moment; only differences are meaningful.
inline double now_ns() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string utc_now();  // ISO 8601: "2026-01-31T23:59:59Z"

}  // namespace base
}  // namespace ridge
