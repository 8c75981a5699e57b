// SPDX-License-Identifier: Apache-2.0
// The list of all passes, of this machine's backend and of others, for people and for programs.
// Not a subcommand.
#pragma once

#include <string>

namespace ridge::apps {

// In the order in which they run: a line a pass, what it does, what it trades. No line is wider than
// `columns`.
std::string pass_list_text(int columns);

// The same as a JSON array.
std::string pass_list_json();

}  // namespace ridge::apps
