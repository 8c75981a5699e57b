// SPDX-License-Identifier: Apache-2.0
// The time of day as text.
#include "base/clock.h"

#include <ctime>

namespace ridge {
inline namespace base {

std::string utc_now() {
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char text[sizeof "2000-01-01T00:00:00Z"];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace base
}  // namespace ridge
