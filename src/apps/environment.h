// SPDX-License-Identifier: Apache-2.0
// Reads terminal options from the user's environment. Not a subcommand.
#pragma once

#include "report/terminal.h"

namespace ridge::apps {

// Limits how long OpenMP's threads spin, by starting the program again with GOMP_SPINCOUNT: OpenMP
// reads it before main begins. Does nothing if that or OMP_WAIT_POLICY is set.
void limit_spinning(char** argv);

// From NO_COLOR, TERM and what stdout and stderr are connected to.
report::TerminalOptions terminal_options_from_environment();

}  // namespace ridge::apps
