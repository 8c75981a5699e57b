// SPDX-License-Identifier: Apache-2.0
// What the user's environment says about the terminal and the cache folder. Not a subcommand.
#pragma once

#include <filesystem>

#include "base/terminal.h"

namespace ridge::apps {

// From NO_COLOR, TERM and what stdout and stderr are connected to.
TerminalOptions terminal_options_from_environment();

// ${XDG_CACHE_HOME:-$HOME/.cache}/ridge, which need not exist; empty where neither is set.
std::filesystem::path cache_folder();

}  // namespace ridge::apps
