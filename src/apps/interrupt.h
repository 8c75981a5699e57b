// SPDX-License-Identifier: Apache-2.0
// Signals that end the program and leave no partial files: Ctrl-C and similar ones, and reads of a
// mapped file that shrank. Not a subcommand.
#pragma once

namespace ridge::apps {

// Call first in main. One thread waits for SIGINT, SIGTERM and SIGHUP, which threads started later
// inherit as blocked; it removes unfinished files (files/unfinished.h) and raises the signal again.
// SIGBUS at an address of a mapped file prints which file it was, and exits with code 3.
void end_cleanly_on_signals();

}  // namespace ridge::apps
