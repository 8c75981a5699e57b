// SPDX-License-Identifier: Apache-2.0
// The failure path of RIDGE_CHECK.
#include "base/error.h"

namespace ridge {
inline namespace base {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw InternalError(fmt::format("{}:{}: check failed: {}: {}", file, line, condition, message));
}

}  // namespace base
}  // namespace ridge
