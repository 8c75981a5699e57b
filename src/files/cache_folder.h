// SPDX-License-Identifier: Apache-2.0
// The user's folder of what was measured on this machine: ceilings and tuned choices.
#pragma once

#include <filesystem>
#include <string>

namespace ridge::files {

// The file in ${XDG_CACHE_HOME:-$HOME/.cache}/ridge, whether it exists or not; empty if neither
// variable is set.
std::filesystem::path cache_file(const std::string& name);

}  // namespace ridge::files
