// SPDX-License-Identifier: Apache-2.0
// Asks the system.
#include "base/host_name.h"

#include <unistd.h>

namespace ridge {
inline namespace base {

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace base
}  // namespace ridge
