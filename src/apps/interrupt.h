// SPDX-License-Identifier: Apache-2.0
// Ctrl-C and similar signals end the program and leave no partial files. Not a subcommand.
#pragma once

namespace ridge::apps {

// Call first in main. One thread waits for SIGINT, SIGTERM and SIGHUP, which threads started later
// inherit as blocked; it removes unfinished files (files/unfinished.h) and raises the signal again.
void remove_unfinished_on_interrupt();

}  // namespace ridge::apps
