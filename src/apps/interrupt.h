// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and its like: they end the program, and nothing half written stays. Not a subcommand.
#pragma once

namespace ridge::apps {

// Call first in main: threads that begin later leave SIGINT, SIGTERM and SIGHUP to one that waits
// for them, takes away what is unfinished (files/unfinished.h) and ends the program by the signal.
void remove_unfinished_on_interrupt();

}  // namespace ridge::apps
