// SPDX-License-Identifier: Apache-2.0
// Ends the program on signals without leaving partial files: on Ctrl-C and similar signals, and
// when the program reads a mapped file that shrank. Not a subcommand.
#pragma once

namespace ridge::apps {

// Call first in main. One thread waits for SIGINT, SIGTERM and SIGHUP; threads started later
// inherit these signals as blocked. It removes unfinished files (files/unfinished.h) and raises the
// signal again. SIGBUS at an address of a mapped file prints the name of the file and exits with
// code 3.
void end_cleanly_on_signals();

}  // namespace ridge::apps
