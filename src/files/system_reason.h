// SPDX-License-Identifier: Apache-2.0
// Says why a call failed, in the system's words.
#pragma once

#include <string>
#include <system_error>

namespace ridge::files {

// The text of an errno: "No such file or directory".
inline std::string system_reason(int error) { return std::generic_category().message(error); }

}  // namespace ridge::files
