// SPDX-License-Identifier: Apache-2.0
// Signals that end the program, so that nothing half written stays: Ctrl-C and its like, and reads of
// a mapped file that shrank. Not a subcommand.
#pragma once

namespace ridge::apps {

// Call first in main. SIGINT, SIGTERM and SIGHUP go to a thread of their own, which removes what is
// unfinished (files/unfinished.h) and ends the program by the signal. SIGBUS at an address of a mapped
// file ends it too, with a sentence that names the file and exit code 3.
void end_cleanly_on_signals();

}  // namespace ridge::apps
