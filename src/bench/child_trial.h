// SPDX-License-Identifier: Apache-2.0
// Tries a call in a child of this program that may allocate only what is free, to see how it fails.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ridge::bench {

// Runs `ridge bench op` with these arguments and --memory-limit, and says how it failed to
// allocate.
std::string failure_of_child(std::vector<std::string> arguments, int64_t limit_bytes);

}  // namespace ridge::bench
