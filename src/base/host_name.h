// SPDX-License-Identifier: Apache-2.0
// The name of this host, by which ranks know whether they share one.
#pragma once

#include <string>

namespace ridge {
inline namespace base {

// At most 255 characters.
std::string host_name();

}  // namespace base
}  // namespace ridge
